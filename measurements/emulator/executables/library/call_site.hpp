// Call stack of the program in front of the library.
#pragma once
#include <string>

namespace autosched::program {

std::string call_site();  // calls in the program's own file, the innermost first

}  // namespace autosched::program
