// The program's call stack when it calls the library.
#pragma once
#include <string>

namespace autosched::program {

std::string call_site();  // addresses of calls in the program's own file, the innermost call first

}  // namespace autosched::program
