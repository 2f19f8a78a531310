// Streams and events of the libcudart replacement: work is executed immediately in call order, or recorded by a capture.
#include "runtime.hpp"

using namespace autosched::program;
using namespace autosched::program::runtime;

API int cudaStreamCreateWithPriority(void** stream, unsigned flags, int priority) { return *stream = add_stream(flags, priority), success; }
API int cudaStreamCreateWithFlags(void** stream, unsigned flags) { return *stream = add_stream(flags, 0), success; }
API int cudaStreamCreate(void** stream) { return *stream = add_stream(0, 0), success; }
API int cudaStreamDestroy(void* stream) { return destroy_stream(stream), success; }
API int cudaStreamSynchronize(void* stream) { return end_overlaps(), host_waits_for_stream(stream), failed(sticky_error()); }
API int cudaStreamQuery(void* stream) { return cudaStreamSynchronize(stream); }
API int cudaStreamWaitEvent(void* stream, void* event, unsigned) {
  wait_in_capture(stream, event);
  if (!captured(stream)) wait_for_event(stream, event);
  return success;
}
API int cudaStreamGetPriority(void* stream, int* priority) { return *priority = stream_facts(stream).priority, success; }
API int cudaStreamGetFlags(void* stream, unsigned* flags) { return *flags = stream_facts(stream).flags, success; }
API int cudaStreamGetDevice(void*, int* device) { return *device = 0, success; }
API int cudaStreamAttachMemAsync(void*, void*, std::size_t, unsigned) { return success; }
API int cudaStreamSetAttribute(void*, int, const void*) { return success; }
API int cudaStreamAddCallback(void* stream, void (*call)(void*, int, void*), void* data, unsigned) {
  const Operation operation(stream, "cudaStreamAddCallback");
  callback_done();
  return call(stream, sticky_error(), data), success;
}
API int cudaLaunchHostFunc(void* stream, void (*call)(void*), void* data) {
  return enqueue(stream, Work::host, [=] { return callback_done(), call(data), int{success}; });
}
API int cudaEventCreate(void** event) { return *event = add_event(), success; }
API int cudaEventCreateWithFlags(void** event, unsigned) { return *event = add_event(), success; }
API int cudaEventDestroy(void* event) { return destroy_event(event), success; }
API int cudaEventRecord(void* event, void* stream) {
  if (event == nullptr) return failed(invalid_handle);
  record_in_capture(event, stream);
  if (!captured(stream)) record_event(event, stream);
  return failed(sticky_error());
}
API int cudaEventRecordWithFlags(void* event, void* stream, unsigned) { return cudaEventRecord(event, stream); }
API int cudaEventSynchronize(void* event) {
  if (event == nullptr) return failed(invalid_handle);
  return end_overlaps(), host_waits_for_event(event), failed(sticky_error());
}
API int cudaEventQuery(void* event) { return cudaEventSynchronize(event); }
API int cudaEventElapsedTime(float* milliseconds, void* from, void* to) {
  double begin = 0, end = 0;
  if (!event_milliseconds(from, begin) || !event_milliseconds(to, end)) return failed(invalid_handle);
  return *milliseconds = static_cast<float>(end - begin), success;
}
API int cudaEventElapsedTime_v2(float* milliseconds, void* from, void* to) { return cudaEventElapsedTime(milliseconds, from, to); }
