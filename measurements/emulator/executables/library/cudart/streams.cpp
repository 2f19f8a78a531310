// Streams and events of the stand-in of libcudart: work is done at once, in the order of the calls, or kept by a capture.
#include "runtime.hpp"

using namespace autosched::program;
using namespace autosched::program::runtime;

namespace {

struct Stream {
  unsigned flags = 0;
  int priority = 0;
};
struct Event {
  double at = 0;
  bool recorded = false;
};

}  // namespace

API int cudaStreamCreateWithPriority(void** stream, unsigned flags, int priority) { return *stream = new Stream{flags, priority}, success; }
API int cudaStreamCreateWithFlags(void** stream, unsigned flags) { return *stream = new Stream{flags, 0}, success; }
API int cudaStreamCreate(void** stream) { return *stream = new Stream, success; }
API int cudaStreamDestroy(void* stream) { return delete static_cast<Stream*>(stream), success; }
API int cudaStreamSynchronize(void*) { return end_overlaps(), failed(sticky_error()); }
API int cudaStreamQuery(void*) { return end_overlaps(), failed(sticky_error()); }
API int cudaStreamWaitEvent(void* stream, void* event, unsigned) { return wait_in_capture(stream, event), success; }
API int cudaStreamGetPriority(void* stream, int* priority) { return *priority = stream != nullptr ? static_cast<Stream*>(stream)->priority : 0, success; }
API int cudaStreamGetFlags(void* stream, unsigned* flags) { return *flags = stream != nullptr ? static_cast<Stream*>(stream)->flags : 0, success; }
API int cudaStreamGetDevice(void*, int* device) { return *device = 0, success; }
API int cudaStreamAttachMemAsync(void*, void*, std::size_t, unsigned) { return success; }
API int cudaStreamSetAttribute(void*, int, const void*) { return success; }
API int cudaStreamAddCallback(void* stream, void (*call)(void*, int, void*), void* data, unsigned) { return end_overlaps(), call(stream, sticky_error(), data), success; }
API int cudaLaunchHostFunc(void* stream, void (*call)(void*), void* data) {
  return enqueue(stream, Work::host, [=] { return end_overlaps(), call(data), int{success}; });
}
API int cudaEventCreate(void** event) { return *event = new Event, success; }
API int cudaEventCreateWithFlags(void** event, unsigned) { return *event = new Event, success; }
API int cudaEventDestroy(void* event) { return delete static_cast<Event*>(event), success; }
API int cudaEventRecord(void* event, void* stream) {
  if (event == nullptr) return failed(invalid_handle);
  record_in_capture(event, stream);
  *static_cast<Event*>(event) = {now_milliseconds(), true};
  return failed(sticky_error());
}
API int cudaEventRecordWithFlags(void* event, void* stream, unsigned) { return cudaEventRecord(event, stream); }
API int cudaEventSynchronize(void* event) { return end_overlaps(), event != nullptr ? failed(sticky_error()) : failed(invalid_handle); }
API int cudaEventQuery(void* event) { return end_overlaps(), event != nullptr ? failed(sticky_error()) : failed(invalid_handle); }
API int cudaEventElapsedTime(float* milliseconds, void* from, void* to) {
  if (from == nullptr || to == nullptr) return failed(invalid_handle);
  const auto *a = static_cast<Event*>(from), *b = static_cast<Event*>(to);
  if (!a->recorded || !b->recorded) return failed(invalid_handle);
  return *milliseconds = static_cast<float>(b->at - a->at), success;
}
API int cudaEventElapsedTime_v2(float* milliseconds, void* from, void* to) { return cudaEventElapsedTime(milliseconds, from, to); }
