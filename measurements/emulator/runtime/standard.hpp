// Headers that most files of the runtime include, precompiled for them (measurements/emulator/host/build.py). Each file
// includes it explicitly, too.
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
