// The connection with `autosched run`, properties of the device, and reports of misuse.
#include "session.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace autosched::program {

thread_local int last_error = success;

namespace {
[[noreturn]] void stop(const char* message) {
  std::fprintf(stderr, "autosched: %s\n", message);
  std::_Exit(2);
}
}  // namespace

Session::Session() {
  const char* settings = std::getenv("AUTOSCHED_PROGRAM");
  unsigned long long base = 0, bytes = 0, of_heap = 0;
  int arena = -1;
  if (settings == nullptr || std::sscanf(settings, "%d %d %llu %llu %llu", &socket_, &arena, &base, &bytes, &of_heap) != 5) {
    stop("this library replaces CUDA's on machines without a GPU: start the program with 'autosched run PROGRAM'");
  }
  void* at = mmap(reinterpret_cast<void*>(base), bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, arena, 0);
  if (at != reinterpret_cast<void*>(base)) stop("the memory of the emulated device cannot be mapped: raise ulimit -v");
  begin = next = base;
  end = base + bytes;
  heap = end - of_heap;
  std::istringstream facts(ask("hello"));
  for (std::string key, value; facts >> key && std::getline(facts >> std::ws, value);) {
    if (key == "name") name = value;
    numbers[key] = std::strtoull(value.c_str(), nullptr, 10);
  }
}
std::string Session::ask(const std::string& text, const void* bytes, std::size_t count) {
  const std::uint64_t sizes[2] = {text.size(), count};
  put(sizes, sizeof sizes);
  put(text.data(), text.size());
  put(bytes, count);
  std::uint64_t size = 0;
  get(&size, sizeof size);
  std::string answer(size, '\0');
  get(answer.data(), size);
  return answer;
}
void Session::put(const void* from, std::size_t count) {
  for (const char* p = static_cast<const char*>(from); count != 0;) {
    const ssize_t n = write(socket_, p, count);
    if (n <= 0) std::_Exit(2);
    p += n;
    count -= static_cast<std::size_t>(n);
  }
}
void Session::get(void* to, std::size_t count) {
  for (char* p = static_cast<char*>(to); count != 0;) {
    const ssize_t n = read(socket_, p, count);
    if (n <= 0) std::_Exit(2);
    p += n;
    count -= static_cast<std::size_t>(n);
  }
}
Session& session() {
  static Session* s = new Session;  // never destroyed, because destructors of the program may still free memory
  return *s;
}

int failed(int error) {
  if (error != success) last_error = error;
  return error;
}
int sticky_error() { return session().sticky; }
std::recursive_mutex& session_mutex() { return session().mutex; }
std::string ask(const std::string& text) { return session().ask(text); }

std::uint64_t fact(const std::string& name) { return session().numbers[name]; }
const std::string& device_name() { return session().name; }

void complain_misuse(const std::string& text) {
  const Lock lock(session().mutex);
  session().ask("misuse " + text);
}

void complain_machine_code() {
  const Lock lock(session().mutex);
  session().ask("machine_code");
}

int unsupported(const char* function) {
  const Lock lock(session().mutex);
  session().ask(std::string("lacking ") + function);
  return failed(not_supported);
}

double now_milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace autosched::program
