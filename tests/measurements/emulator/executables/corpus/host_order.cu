// Streams and the host access one array. The first argument selects a case. If the second is "sound", they synchronise.
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "check.h"

constexpr int count = 256, bytes = count * sizeof(int);

__global__ void fill(int* to, int value) { to[threadIdx.x] = value; }
__global__ void twice(const int* from, int* to) { to[threadIdx.x] = 2 * from[threadIdx.x]; }
__global__ void tally(int* to) { atomicAdd(to, 1); }

// One host thread signals another by this flag.
static std::atomic<bool> ready{false};
static void await() {
  while (!ready) std::this_thread::yield();
}

static cudaStream_t stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t new_stream;
  CHECK(cudaStreamCreateWithFlags(&new_stream, flags));
  return new_stream;
}
static cudaKernelNodeParams parameters(void* kernel, void** arguments) {
  cudaKernelNodeParams p = {};
  p.func = kernel, p.gridDim = dim3(1), p.blockDim = dim3(count), p.kernelParams = arguments;
  return p;
}
static void launch(cudaGraph_t graph, cudaStream_t on, int times = 2) {
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int k = 0; k < times; ++k) CHECK(cudaGraphLaunch(executable, on));
}
static void after(cudaStream_t later, cudaStream_t earlier) {
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaEventRecord(event, earlier));
  CHECK(cudaStreamWaitEvent(later, event, 0));
  CHECK(cudaEventDestroy(event));
}

int main(int argc, char** argv) {
  const char* case_name = argc > 1 ? argv[1] : "";
  const bool sound = argc > 2;
  const auto is = [case_name](const char* name) { return std::strcmp(case_name, name) == 0; };
  int *x, *y, *pinned, *managed, plain[count];
  CHECK(cudaMalloc(&x, bytes));
  CHECK(cudaMalloc(&y, bytes));
  CHECK(cudaMallocHost(&pinned, bytes));
  CHECK(cudaMallocManaged(&managed, bytes));
  CHECK(cudaMemset(x, 0, bytes));
  CHECK(cudaMemset(y, 0, bytes));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < count; ++i) pinned[i] = managed[i] = plain[i] = i;
  if (is("streams")) {
    cudaStream_t a = stream(), b = stream();
    fill<<<1, count, 0, a>>>(x, 1);
    if (sound) after(b, a);
    twice<<<1, count, 0, b>>>(x, y);  // streams
  } else if (is("blocking")) {  // the legacy stream waits only for blocking streams
    cudaStream_t a = stream(sound ? cudaStreamDefault : cudaStreamNonBlocking);
    fill<<<1, count, 0, a>>>(x, 1);
    twice<<<1, count>>>(x, y);  // blocking
  } else if (is("halves")) {  // each stream writes one half of an array
    cudaStream_t a = stream(), b = stream();
    fill<<<1, count / 2, 0, a>>>(x, 1);
    fill<<<1, count / 2, 0, b>>>(x + (sound ? count / 2 : count / 2 - 1), 2);  // halves
  } else if (is("atomics")) {
    cudaStream_t a = stream(), b = stream();
    tally<<<1, count, 0, a>>>(x);
    if (sound) {
      tally<<<1, count, 0, b>>>(x);
    } else {
      fill<<<1, 1, 0, b>>>(x, 0);  // atomics
    }
  } else if (is("managed")) {
    fill<<<1, count>>>(managed, 1);
    if (sound) CHECK(cudaDeviceSynchronize());
    plain[0] = managed[7];  // managed
  } else if (is("managed_write")) {
    twice<<<1, count>>>(managed, x);
    if (sound) CHECK(cudaStreamSynchronize(0));
    managed[7] = 3;  // managed_write
  } else if (is("managed_read")) {  // kernel and host both read
    twice<<<1, count>>>(managed, x);
    plain[0] = managed[7];
    if (!sound) managed[7] = plain[0];  // managed_read
  } else if (is("result")) {
    cudaStream_t a = stream();
    CHECK(cudaMemcpyAsync(pinned, x, bytes, cudaMemcpyDeviceToHost, a));
    if (sound) CHECK(cudaStreamSynchronize(a));
    plain[0] = pinned[9];  // result
  } else if (is("reuse")) {
    cudaStream_t a = stream();
    CHECK(cudaMemcpyAsync(x, pinned, bytes, cudaMemcpyHostToDevice, a));
    plain[0] = pinned[9];
    if (sound) {
      cudaEvent_t copied;
      CHECK(cudaEventCreate(&copied));
      CHECK(cudaEventRecord(copied, a));
      while (cudaEventQuery(copied) == cudaErrorNotReady) {
      }
    }
    std::memset(pinned, 0, bytes);  // reuse
  } else if (is("pageable")) {  // copies of pageable memory are synchronous for the host
    cudaStream_t a = stream();
    CHECK(cudaMemcpyAsync(x, sound ? plain : pinned, bytes, cudaMemcpyHostToDevice, a));
    (sound ? plain : pinned)[3] = 1;  // pageable
    CHECK(cudaMemcpyAsync(plain, x, bytes, cudaMemcpyDeviceToHost, a));
    plain[0] = plain[3];
  } else if (is("pool")) {
    cudaStream_t a = stream(), b = stream();
    int* p;
    CHECK(cudaMallocAsync((void**)&p, bytes, a));
    fill<<<1, count, 0, a>>>(p, 1);
    after(b, a);
    twice<<<1, count, 0, b>>>(p, y);
    if (sound) after(a, b);
    CHECK(cudaFreeAsync(p, a));  // pool
  } else if (is("pool_free")) {  // cudaFree of pool memory does not wait
    cudaStream_t a = stream();
    int* p;
    CHECK(cudaMallocAsync((void**)&p, bytes, a));
    fill<<<1, count, 0, a>>>(p, 1);
    if (sound) CHECK(cudaStreamSynchronize(a));
    CHECK(cudaFree(p));  // pool_free
  } else if (is("default")) {  // these are two streams if compiled with --default-stream per-thread, else one
    fill<<<1, count>>>(x, 1);
    twice<<<1, count, 0, sound ? cudaStreamPerThread : stream()>>>(x, y);  // default
  } else if (is("rows")) {  // each stream writes some columns of a matrix
    cudaStream_t a = stream(), b = stream();
    const std::size_t pitch = 16 * sizeof(int), half = pitch / 2;
    CHECK(cudaMemset2DAsync(x, pitch, 0, half, 16, a));
    CHECK(cudaMemset2DAsync(sound ? x + 8 : x + 7, pitch, 1, half, 16, b));  // rows
  } else if (is("graph")) {
    cudaStream_t a = stream(), b = stream();
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    fill<<<1, count, 0, a>>>(x, 1);
    CHECK(cudaStreamEndCapture(a, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, a));
    if (sound) after(b, a);
    twice<<<1, count, 0, b>>>(x, y);  // graph
  } else if (is("graph_node")) {  // a graph built node by node
    cudaStream_t a = stream(), b = stream();
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t executable;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, y, x, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, a));
    if (sound) after(b, a);
    fill<<<1, count, 0, b>>>(y, 1);  // graph_node
  } else if (is("edge") || is("edge_around") || is("child")) {
    cudaGraph_t graph, inner;
    cudaGraphNode_t first, between, side;
    int value = 1;
    void *of_fill[] = {&x, &value}, *of_twice[] = {&x, &y}, *of_refill[] = {&y, &value};
    const cudaKernelNodeParams filling = parameters((void*)fill, of_fill), doubling = parameters((void*)twice, of_twice),
                               refilling = parameters((void*)fill, of_refill);
    CHECK(cudaGraphCreate(&graph, 0));
    if (is("edge")) {  // an edge between two nodes
      CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &filling));
      CHECK(cudaGraphAddKernelNode(&side, graph, &first, sound ? 1 : 0, &doubling));  // edge
    } else if (is("edge_around")) {  // a path of edges orders two nodes, parallel paths do not
      CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &filling));
      CHECK(cudaGraphAddEmptyNode(&between, graph, &first, 1));
      CHECK(cudaGraphAddKernelNode(&side, graph, &between, 1, &doubling));
      CHECK(cudaGraphAddKernelNode(&first, graph, sound ? &side : &between, 1, &refilling));  // edge_around
    } else {  // a child graph, and a node that depends on it only if sound
      CHECK(cudaGraphCreate(&inner, 0));
      CHECK(cudaGraphAddKernelNode(&first, inner, nullptr, 0, &filling));
      CHECK(cudaGraphAddChildGraphNode(&between, graph, nullptr, 0, inner));
      CHECK(cudaGraphAddKernelNode(&side, graph, &between, sound ? 1 : 0, &doubling));  // child
    }
    launch(graph, stream());
  } else if (is("host_node")) {  // a kernel, and a host function that depends on it only if sound
    cudaGraph_t graph;
    cudaGraphNode_t first, second;
    int value = 1;
    void* of_fill[] = {&managed, &value};
    const cudaKernelNodeParams filling = parameters((void*)fill, of_fill);
    cudaHostNodeParams adding = {};
    adding.fn = [](void* data) {
      static_cast<int*>(data)[0] = 1;  // host_node
    };
    adding.userData = managed;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &filling));
    CHECK(cudaGraphAddHostNode(&second, graph, &first, sound ? 1 : 0, &adding));
    launch(graph, stream());
  } else if (is("executable")) {  // launches of one executable graph are ordered, launches of two are not
    cudaStream_t a = stream(), b = stream();
    cudaGraph_t graph;
    cudaGraphExec_t one, two;
    CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    fill<<<1, count, 0, a>>>(x, 1);
    CHECK(cudaStreamEndCapture(a, &graph));
    CHECK(cudaGraphInstantiate(&one, graph, 0));
    CHECK(cudaGraphInstantiate(&two, graph, 0));
    CHECK(cudaGraphLaunch(one, a));
    CHECK(cudaGraphLaunch(sound ? one : two, b));  // executable
  } else if (is("fork")) {  // a stream is forked and joined during capture
    cudaStream_t a = stream(), b = stream();
    cudaEvent_t forked, joined;
    cudaGraph_t graph;
    CHECK(cudaEventCreate(&forked));
    CHECK(cudaEventCreate(&joined));
    CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    if (!sound) CHECK(cudaEventRecord(forked, a));
    fill<<<1, count, 0, a>>>(x, 1);
    if (sound) CHECK(cudaEventRecord(forked, a));
    CHECK(cudaStreamWaitEvent(b, forked, 0));
    twice<<<1, count, 0, b>>>(x, y);  // fork
    CHECK(cudaEventRecord(joined, b));
    CHECK(cudaStreamWaitEvent(a, joined, 0));
    CHECK(cudaMemsetAsync(y, 0, bytes, a));
    CHECK(cudaStreamEndCapture(a, &graph));
    launch(graph, a);
  } else if (is("join")) {  // work after the fork, before or after the join
    cudaStream_t a = stream(), b = stream();
    cudaEvent_t forked, joined;
    cudaGraph_t graph;
    CHECK(cudaEventCreate(&forked));
    CHECK(cudaEventCreate(&joined));
    CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    CHECK(cudaEventRecord(forked, a));
    CHECK(cudaStreamWaitEvent(b, forked, 0));
    fill<<<1, count, 0, b>>>(y, 1);
    CHECK(cudaEventRecord(joined, b));
    if (sound) CHECK(cudaStreamWaitEvent(a, joined, 0));
    CHECK(cudaMemsetAsync(y, 0, bytes, a));  // join
    if (!sound) CHECK(cudaStreamWaitEvent(a, joined, 0));
    CHECK(cudaStreamEndCapture(a, &graph));
    launch(graph, a);
  } else if (is("threads") || is("thread_reads") || is("thread_copies") || is("result_of_thread")) {
    cudaStream_t a = stream(), b = stream();
    int* const used = is("thread_reads") ? managed : x;
    std::thread other([&] {
      await();
      if (is("threads")) {
        twice<<<1, count, 0, b>>>(x, y);  // threads
      } else if (is("thread_reads")) {
        plain[0] = managed[7];  // thread_reads
      } else if (is("thread_copies")) {
        CHECK(cudaMemcpyAsync(y, x, bytes, cudaMemcpyDeviceToDevice, b));  // thread_copies
      } else {
        CHECK(cudaMemcpyAsync(plain, x, bytes, cudaMemcpyDeviceToHost, b));  // result_of_thread
      }
      CHECK(cudaStreamSynchronize(b));
    });
    fill<<<1, count, 0, a>>>(used, 1);
    if (!sound) ready = true;
    if (is("result_of_thread")) {  // a copy to pageable memory also waits for its stream
      CHECK(cudaMemcpyAsync(plain + count / 2, used, 4, cudaMemcpyDeviceToHost, a));
    } else {
      CHECK(cudaStreamSynchronize(a));
    }
    ready = true;
    other.join();
  } else if (is("joined") || is("joined_posix")) {  // after a join, this thread may read what the joined thread waited for
    cudaStream_t a = stream();
    const auto work = [&] {
      fill<<<1, count, 0, a>>>(managed, 1);
      if (sound) CHECK(cudaStreamSynchronize(a));
    };
    if (is("joined")) {
      std::thread(work).join();
      plain[0] = managed[7];  // joined
    } else {
      pthread_t other;
      pthread_create(&other, nullptr, [](void* data) -> void* { return (*static_cast<decltype(work)*>(data))(), nullptr; }, const_cast<void*>(static_cast<const void*>(&work)));
      pthread_join(other, nullptr);
      plain[0] = managed[7];  // joined_posix
    }
  } else if (is("read_before_join")) {
    cudaStream_t a = stream();
    std::thread other([&] {
      fill<<<1, count, 0, a>>>(managed, 1);
      ready = true;
      CHECK(cudaStreamSynchronize(a));
    });
    await();
    if (sound) other.join();
    plain[0] = managed[7];  // read_before_join
    if (!sound) other.join();
  } else if (is("signalled")) {  // a thread waits for a kernel, and then signals another thread, which reads the result
    cudaStream_t a = stream();
    std::mutex mutex;
    std::condition_variable condition;
    bool done = false;
    std::thread other([&] {
      fill<<<1, count, 0, a>>>(managed, 1);
      ready = true;
      if (sound) {
        std::unique_lock lock(mutex);
        condition.wait(lock, [&] { return done; });
      }
      plain[0] = managed[7];  // signalled
    });
    await();
    CHECK(cudaStreamSynchronize(a));
    {
      const std::lock_guard lock(mutex);
      done = true;
    }
    condition.notify_one();
    other.join();
  } else if (is("device_copy")) {  // the host does not wait for a copy within the device
    cudaStream_t b = stream();
    CHECK(cudaMemcpy(y, x, bytes, cudaMemcpyDeviceToDevice));
    if (sound) CHECK(cudaDeviceSynchronize());
    fill<<<1, count, 0, b>>>(y, 1);  // device_copy
  } else if (is("callback")) {
    cudaStream_t a = stream();
    if (!sound) fill<<<1, count, 0, stream()>>>(managed, 1);
    fill<<<1, count, 0, a>>>(managed, 1);  // callback
    CHECK(cudaLaunchHostFunc(a, [](void* data) { static_cast<int*>(data)[0] += 1; }, managed));
    if (sound) plain[0] = managed[0];
  }
  CHECK(cudaDeviceSynchronize());
  return verdict(true);
}
