// Modules of the program, with their variables and kernels.
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "session.hpp"

namespace autosched::program {

Module* add_module(const void* image, std::size_t bytes) {
  const Lock lock(session().mutex);
  auto* m = new Module{static_cast<int>(session().modules.size()), image, bytes, false, success, {}};
  session().modules.push_back(m);
  return m;
}

int load(Module* module) {
  const Lock lock(session().mutex);
  if (module->loaded) return module->error;
  module->loaded = true;
  std::istringstream answer(session().ask("module " + std::to_string(module->id), module->image, module->bytes));
  answer >> module->error;
  std::string name;
  // Lines are: variable NAME BYTES HEX; table NAME BYTES HEX (a table of function addresses); relocation NAME OFFSET
  // TARGET ADDEND.
  for (std::string key; answer >> key;) {
    std::size_t number = 0;
    std::string value;
    answer >> name >> number >> value;
    const auto of = [&](const std::string& wanted) -> Variable* {
      for (Variable* v : module->variables) {
        if (v->name == wanted) return v;
      }
      return nullptr;
    };
    Variable* v = of(name);
    if (v == nullptr && (key == "table" || (key == "variable" && module->adopts))) v = add_variable(module, name.c_str(), number, false, false);
    if (key == "relocation") {
      std::uint64_t addend = 0;
      answer >> addend;
      const Variable* target = of(value);
      if (v == nullptr || target == nullptr) continue;
      addend += target->address;
      std::memcpy(reinterpret_cast<char*>(v->address) + number, &addend, sizeof addend);
      continue;
    }
    if (v == nullptr || value == "-") continue;
    v->unset = false;
    make_known(v->address, v->address + v->bytes);
    for (std::size_t k = 0; k + 1 < value.size() && k / 2 < v->bytes; k += 2) {
      reinterpret_cast<unsigned char*>(v->address)[k / 2] =
          static_cast<unsigned char>(std::strtoul(value.substr(k, 2).c_str(), nullptr, 16));
    }
  }
  return module->error;
}

Variable* add_variable(Module* module, const char* name, std::size_t bytes, bool constant, bool managed) {
  void* at = allocate(bytes, managed ? Allocation::Kind::managed : Allocation::Kind::variable, name);
  auto* v = new Variable{module, name, number_of(at), bytes, constant, constant};
  if (constant && session().numbers["undefined_memory"] != 0) session().unwritten.add(v->address, v->address + bytes);
  module->variables.push_back(v);
  return v;
}

Kernel* add_kernel(Module* module, const char* name) {
  auto* k = new Kernel;
  k->module = module;
  k->name = name;
  return k;
}

int learn(Kernel* kernel) {
  const Lock lock(session().mutex);
  if (kernel->known) return kernel->error;
  kernel->known = true;
  kernel->error = load(kernel->module);
  if (kernel->error != success) return kernel->error;
  std::istringstream answer(session().ask("kernel " + std::to_string(kernel->module->id) + " " + kernel->name));
  answer >> kernel->error >> kernel->most_threads >> kernel->static_shared >> kernel->local >> kernel->uses_heap >> kernel->compiled_for;
  for (unsigned bytes; answer >> bytes;) kernel->parameters.push_back(bytes);
  return kernel->error;
}

}  // namespace autosched::program
