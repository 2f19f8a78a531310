// Streams and events of the libcuda replacement. All work is executed immediately.
#include "driver/driver.hpp"
#include "order.hpp"

using namespace autosched::program;
using namespace autosched::program::driver;

API int cuStreamCreate(void** to, unsigned flags) { return *to = add_stream(flags, 0), success; }
API int cuStreamCreateWithPriority(void** to, unsigned flags, int priority) { return *to = add_stream(flags, priority), success; }
API int cuStreamDestroy(void* s) { return destroy_stream(s), success; }
BOTH(cuStreamDestroy, (void* s), (s))
API int cuStreamSynchronize(void* s) { return end_overlaps(), host_waits_for_stream(s), failed(sticky_error()); }
API int cuStreamQuery(void* s) { return cuStreamSynchronize(s); }
API int cuStreamWaitEvent(void* s, void* e, unsigned) { return wait_for_event(s, e), success; }
API int cuEventCreate(void** to, unsigned) { return *to = add_event(), success; }
API int cuEventDestroy(void* e) { return destroy_event(e), success; }
BOTH(cuEventDestroy, (void* e), (e))
API int cuEventRecord(void* e, void* s) { return record_event(e, s), success; }
API int cuEventSynchronize(void* e) { return end_overlaps(), host_waits_for_event(e), failed(sticky_error()); }
API int cuEventQuery(void* e) { return cuEventSynchronize(e); }
API int cuEventElapsedTime(float* to, void* a, void* b) {
  double begin = 0, end = 0;
  if (!event_milliseconds(a, begin) || !event_milliseconds(b, end)) return failed(invalid_handle);
  return *to = static_cast<float>(end - begin), success;
}
BOTH(cuEventElapsedTime, (float* to, void* a, void* b), (to, a, b))
