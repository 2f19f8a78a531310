// Arrays, textures and surfaces of the libcudart replacement.
#include <algorithm>

#include "runtime.hpp"

using namespace autosched::program;
using namespace autosched::program::runtime;

namespace {

struct Channel {
  int x, y, z, w, kind;
};

int new_array(Array** to, const Channel* c, std::size_t width, std::size_t height, std::size_t depth, unsigned flags, const char* function) {
  if (to == nullptr || c == nullptr || width == 0) return failed(invalid_value);
  const auto bits = [](int n) { return static_cast<unsigned>(n); };
  auto* a = new Array{0, {bits(c->x), bits(c->y), bits(c->z), bits(c->w)}, c->kind, width, height, depth, (flags & 1u) != 0};
  void* p = allocate(a->pitch() * a->rows() * a->planes(), Allocation::Kind::array, function);
  if (p == nullptr) {
    delete a;
    return failed(out_of_memory);
  }
  a->address = reinterpret_cast<std::uint64_t>(p);
  *to = a;
  return success;
}

}  // namespace

namespace autosched::program::runtime {

char* in_array(const Array* a, std::size_t x, std::size_t y, std::size_t z) {
  return reinterpret_cast<char*>(a->address) + (z * a->rows() + y) * a->pitch() + x;
}

}  // namespace autosched::program::runtime

API int cudaMallocArray(Array** to, const Channel* channel, std::size_t width, std::size_t height, unsigned flags) {
  return new_array(to, channel, width, height, 0, flags, "cudaMallocArray");
}
API int cudaMalloc3DArray(Array** to, const Channel* channel, Extent e, unsigned flags) {
  return new_array(to, channel, e.width, e.height, e.depth, flags, "cudaMalloc3DArray");
}
API int cudaFreeArray(Array* array) {
  if (array == nullptr) return success;
  const int error = release(reinterpret_cast<void*>(array->address), "cudaFreeArray");
  delete array;
  return error;
}
API int cudaArrayGetInfo(Channel* channel, Extent* extent, unsigned* flags, const Array* a) {
  const auto bits = [&](int k) { return static_cast<int>(a->bits[k]); };
  if (channel != nullptr) *channel = {bits(0), bits(1), bits(2), bits(3), a->kind};
  if (extent != nullptr) *extent = {a->width, a->height, a->depth};
  if (flags != nullptr) *flags = a->layered;
  return success;
}
API int cudaGetChannelDesc(Channel* channel, const Array* a) { return cudaArrayGetInfo(channel, nullptr, nullptr, a); }
API Channel cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return {x, y, z, w, kind}; }
API int cudaMemcpy2DToArray(Array* to, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width, std::size_t height, int kind) {
  return copy_rows(in_array(to, x, y), to->pitch(), from, pitch, width, height, kind, "cudaMemcpy2DToArray");
}
API int cudaMemcpy2DToArrayAsync(Array* to, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width, std::size_t height, int kind, void* stream) {
  return enqueue(stream, Work::copy, [=] { return cudaMemcpy2DToArray(to, x, y, from, pitch, width, height, kind); });
}
API int cudaMemcpy2DFromArray(void* to, std::size_t pitch, const Array* from, std::size_t x, std::size_t y, std::size_t width, std::size_t height, int kind) {
  return copy_rows(to, pitch, in_array(from, x, y), from->pitch(), width, height, kind, "cudaMemcpy2DFromArray");
}
API int cudaMemcpy2DFromArrayAsync(void* to, std::size_t pitch, const Array* from, std::size_t x, std::size_t y, std::size_t width, std::size_t height, int kind, void* stream) {
  return enqueue(stream, Work::copy, [=] { return cudaMemcpy2DFromArray(to, pitch, from, x, y, width, height, kind); });
}
API int cudaMemcpyToArray(Array* to, std::size_t x, std::size_t y, const void* from, std::size_t bytes, int kind) {
  return copy(in_array(to, x, y), from, bytes, kind, "cudaMemcpyToArray");
}
API int cudaMemcpyFromArray(void* to, const Array* from, std::size_t x, std::size_t y, std::size_t bytes, int kind) {
  return copy(to, in_array(from, x, y), bytes, kind, "cudaMemcpyFromArray");
}
namespace {
struct Resource {
  int type;  // cudaResourceType: 0 array, 2 linear, 3 pitched
  union {
    struct {
      Array* array;
    } array;
    struct {
      void* pointer;
      Channel channel;
      std::size_t bytes;
    } linear;
    struct {
      void* pointer;
      Channel channel;
      std::size_t width, height, pitch;
    } pitched;
  };
};
struct TextureDescription {
  int modes[3], filter, read;
  int srgb;
  float border[4];
  int normalized_coordinates;
};
void set_channel(TextureView& view, const Channel& c) {
  const int bits[] = {c.x, c.y, c.z, c.w};
  for (int k = 0; k < 4; ++k) view.bits[k] = static_cast<unsigned>(bits[k]);
  view.kind = c.kind;
}
int view_of(const Resource* r, TextureView& view) {
  view = TextureView{};
  view.extent[0] = view.extent[1] = view.extent[2] = 1;
  if (r->type == 0) {
    const Array* a = r->array.array;
    view.address = a->address;
    for (int k = 0; k < 4; ++k) view.bits[k] = a->bits[k];
    view.kind = a->kind;
    view.layered = a->layered;
    view.dimensions = a->depth != 0 && !a->layered ? 3 : a->height != 0 ? 2 : 1;
    view.extent[0] = a->width, view.extent[1] = a->rows(), view.extent[2] = a->planes();
    view.pitch = a->pitch(), view.slice = a->pitch() * a->rows();
  } else if (r->type == 2) {
    view.address = reinterpret_cast<std::uint64_t>(r->linear.pointer);
    set_channel(view, r->linear.channel);
    view.dimensions = 1;
    const unsigned texel = (view.bits[0] + view.bits[1] + view.bits[2] + view.bits[3]) / 8;
    if (texel == 0) return failed(20);
    view.extent[0] = r->linear.bytes / texel;
    view.pitch = view.slice = r->linear.bytes;
  } else if (r->type == 3) {
    view.address = reinterpret_cast<std::uint64_t>(r->pitched.pointer);
    set_channel(view, r->pitched.channel);
    view.dimensions = 2;
    view.extent[0] = r->pitched.width, view.extent[1] = r->pitched.height;
    view.pitch = r->pitched.pitch, view.slice = r->pitched.pitch * r->pitched.height;
  } else {
    return unsupported("mipmapped arrays");
  }
  return success;
}
}  // namespace
API int cudaCreateTextureObject(std::uint64_t* to, const Resource* resource, const TextureDescription* t, const void*) {
  TextureView view;
  if (const int error = view_of(resource, view); error != success) return error;
  view.linear = t->filter == 1;
  view.normalized_read = t->read == 1;
  view.normalized_coordinates = t->normalized_coordinates != 0;
  // fetches outside of linear memory return zero
  for (int d = 0; d < 3; ++d) view.modes[d] = resource->type == 2 ? 3 : t->modes[d];
  std::copy(t->border, t->border + 4, view.border);
  return *to = add_texture(view), success;
}
API int cudaDestroyTextureObject(std::uint64_t handle) { return remove_texture(handle), success; }
API int cudaCreateSurfaceObject(std::uint64_t* to, const Resource* resource) {
  TextureView view;
  if (const int error = view_of(resource, view); error != success) return error;
  return *to = add_texture(view), success;
}
API int cudaDestroySurfaceObject(std::uint64_t handle) { return remove_texture(handle), success; }
