// What JAX calls: the kernels behind its foreign function interface.

#include "xla/ffi/api/ffi.h"

#include "runge_kutta.cuh"
#include "pull.cuh"

namespace ffi = xla::ffi;
using In = ffi::Buffer<ffi::F32>;
using Out = ffi::ResultBuffer<ffi::F32>;

template <class... Kernel, class... Arguments>
ffi::Error launch(void (*kernel)(Kernel...), long blocks, int floats, cudaStream_t stream, Arguments... arguments) {
  const int bytes = floats * int(sizeof(float));
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error == cudaSuccess && blocks > 0) {
    kernel<<<unsigned(blocks), THREADS, bytes, stream>>>(arguments...);
    error = cudaGetLastError();
  }
  return error == cudaSuccess ? ffi::Error::Success() : ffi::Error::Internal(cudaGetErrorString(error));
}

static Batch batch_of(In first, In second, In last, In offset, In skip, In start, float t0, float step, int count, int blocks) {
  return {first.typed_data(), second.typed_data(), last.typed_data(), offset.typed_data(), skip.typed_data(),
          start.typed_data(), int(start.dimensions()[1]), count, blocks, t0, step};
}

static ffi::Error do_runge_kutta(cudaStream_t stream, In first, In second, In last, In offset, In skip, In start, float t0,
                           float step, int32_t count, int32_t blocks, Out states, Out slopes) {
  const Batch batch = batch_of(first, second, last, offset, skip, start, t0, step, count, blocks);
  return launch(runge_kutta, start.dimensions()[0] * blocks, FORWARD_FLOATS, stream, batch, states->typed_data(),
                slopes->typed_data());
}

static ffi::Error do_pull(cudaStream_t stream, In first, In second, In last, In offset, In skip, In start, In states, In slopes,
                          In to_states, In to_slopes, float t0, float step, int32_t count, int32_t blocks, Out to_weights,
                          Out to_offset, Out to_skip, Out to_start) {
  const Batch batch = batch_of(first, second, last, offset, skip, start, t0, step, count, blocks);
  const Pull p{states.typed_data(), slopes.typed_data(), to_states.typed_data(), to_slopes.typed_data(),
               to_weights->element_count() ? to_weights->typed_data() : nullptr, to_offset->typed_data(),
               to_skip->typed_data(), to_start->typed_data()};
  return launch(pull, start.dimensions()[0] * blocks, BACKWARD_FLOATS, stream, batch, p);
}

// Both may be recorded in CUDA graphs: they only launch.
XLA_FFI_DEFINE_HANDLER_SYMBOL(odeprocess_runge_kutta, do_runge_kutta,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<In>().Arg<In>().Arg<In>().Arg<In>().Arg<In>().Arg<In>()
                                  .Attr<float>("t0").Attr<float>("step").Attr<int32_t>("count").Attr<int32_t>("blocks")
                                  .Ret<In>().Ret<In>(),
                              {ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(odeprocess_pull, do_pull,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<In>().Arg<In>().Arg<In>().Arg<In>().Arg<In>().Arg<In>()
                                  .Arg<In>().Arg<In>().Arg<In>().Arg<In>()
                                  .Attr<float>("t0").Attr<float>("step").Attr<int32_t>("count").Attr<int32_t>("blocks")
                                  .Ret<In>().Ret<In>().Ret<In>().Ret<In>(),
                              {ffi::Traits::kCmdBufferCompatible});
