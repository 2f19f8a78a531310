// Where the program calls the library.
#pragma once
#include <string>

namespace autosched::program {

std::string call_site();  // the calls in the program's own file that have led here, the nearest first

}  // namespace autosched::program
