// Standard headers that most files of the runtime need, as a precompiled header (measurements/emulator/host/build.py).
// Files also include the headers that they use explicitly.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>
