// Custom operators of onnxruntime as C++ classes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>
#include <type_traits>

#include "simd.h"
#include "tensor.h"

namespace xuanzang {

// Inputs, outputs, arithmetic and threads of one call of an operator.
class Context {
 public:
  Context(const OrtApi& api, const Simd& simd, OrtKernelContext* context) : api_(api), simd_(simd), context_(context) {}

  const Simd& simd() const { return simd_; }

  template <typename T>
  Tensor<const T> input(size_t index) const {
    const OrtValue* value = nullptr;
    check(api_, api_.KernelContext_GetInput(context_, index, &value));
    require(value, "an input is missing");
    return tensor_of<const T>(api_, value);
  }

  // Allocates an output; its data is null if the graph does not use it.
  template <typename T>
  Tensor<T> output(size_t index, std::initializer_list<size_t> shape) const {
    Tensor<T> tensor;
    for (size_t size : shape) tensor.shape[tensor.rank++] = static_cast<int64_t>(size);
    return allocated(index, tensor);
  }

  // Allocates an output of the shape of another tensor.
  template <typename T, typename Other>
  Tensor<T> output(size_t index, const Tensor<Other>& like) const {
    return allocated(index, Tensor<T>{nullptr, like.shape, like.rank});
  }

  // Calls work(index) for every index below count, on several threads if the session has them and it pays.
  //
  // operations: multiplications of all calls together; waking threads for few of them costs more than it gains.
  template <typename Work>
  void parallel(size_t count, size_t operations, const Work& work) const {
    constexpr size_t kWorthwhile = 1'000'000;
    if (operations < kWorthwhile) {
      for (size_t index = 0; index < count; ++index) work(index);
      return;
    }
    Parallel<Work> parallel{work};
    check(api_, api_.KernelContext_ParallelFor(context_, &Parallel<Work>::call, count, 0, &parallel));
    if (parallel.error) std::rethrow_exception(parallel.error);
  }

 private:
  // Work on several threads. No exception may pass through onnxruntime: the first is kept, and ends the work.
  template <typename Work>
  struct Parallel {
    const Work& work;
    std::atomic<bool> failed{false};
    std::exception_ptr error{};

    static void call(void* self, size_t index) noexcept {
      auto& parallel = *static_cast<Parallel*>(self);
      if (parallel.failed) return;
      try {
        parallel.work(index);
      } catch (...) {
        if (!parallel.failed.exchange(true)) parallel.error = std::current_exception();
      }
    }
  };

  template <typename T>
  Tensor<T> allocated(size_t index, Tensor<T> tensor) const {
    OrtValue* value = nullptr;
    check(api_, api_.KernelContext_GetOutput(context_, index, tensor.shape.data(), tensor.rank, &value));
    if (value) tensor.data = data_of<T>(api_, value);
    return tensor;
  }

  const OrtApi& api_;
  const Simd& simd_;
  OrtKernelContext* context_;
};

// An output that may take the memory of an input of its size.
struct InPlace {
  int input;
  int output;
};

// The inputs of a node that never change, when a session is opened.
class Constants {
 public:
  Constants(const OrtApi& api, const OrtKernelInfo* info) : api_(api), info_(info) {}

  // Its data is null if the input may change.
  template <typename T>
  Tensor<const T> input(size_t index) const {
    const OrtValue* value = nullptr;
    int is_constant = 0;
    check(api_, api_.KernelInfoGetConstantInput_tensor(info_, index, &is_constant, &value));
    return is_constant && value ? tensor_of<const T>(api_, value) : Tensor<const T>{};
  }

 private:
  const OrtApi& api_;
  const OrtKernelInfo* info_;
};

// A node of an operator that keeps nothing.
template <typename Operator, typename = void>
struct Node {
  explicit Node(const Constants&) {}
  void compute(const Context& context) const { Operator::compute(context); }
};

// A node of an operator that keeps data derived from its constant inputs: Operator::Kept.
template <typename Operator>
struct Node<Operator, std::void_t<typename Operator::Kept>> {
  explicit Node(const Constants& constants) : kept(constants) {}
  void compute(const Context& context) const { Operator::compute(context, kept); }

  const typename Operator::Kept kept;
};

// An operator as onnxruntime sees it. `Operator` has kName, kInputs and kOutputs (types), kInPlace, and
// compute(const Context&), or Kept and compute(const Context&, const Kept&).
template <typename Operator>
class CustomOp : public OrtCustomOp {
 public:
  CustomOp(const OrtApi& api, const Simd& simd) : OrtCustomOp{}, api_(api), simd_(simd) {
    version = kOrtApiVersion;
    GetName = [](const OrtCustomOp*) { return Operator::kName; };
    GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return "CPUExecutionProvider"; };
    GetInputType = [](const OrtCustomOp*, size_t index) { return Operator::kInputs[index]; };
    GetInputTypeCount = [](const OrtCustomOp*) { return std::size(Operator::kInputs); };
    GetOutputType = [](const OrtCustomOp*, size_t index) { return Operator::kOutputs[index]; };
    GetOutputTypeCount = [](const OrtCustomOp*) { return std::size(Operator::kOutputs); };
    KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
    GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return kOrtRequired; };
    GetOutputCharacteristic = [](const OrtCustomOp*, size_t index) { return index ? kOrtOptional : kOrtRequired; };
    GetInputMemoryType = [](const OrtCustomOp*, size_t) { return kOrtDefaultMemory; };
    GetVariadicInputMinArity = GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return 0; };
    GetVariadicOutputMinArity = GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 0; };
    CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi*, const OrtKernelInfo* info, void** kernel) {
      const auto& op = *static_cast<const CustomOp*>(self);
      return op.guarded([&] { *kernel = new Kernel{op, Node<Operator>(Constants(op.api_, info))}; });
    };
    KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
      const auto& [op, node] = *static_cast<const Kernel*>(kernel);
      return op.guarded([&, &op = op, &node = node] { node.compute(Context(op.api_, op.simd_, context)); });
    };
    GetStartVersion = [](const OrtCustomOp*) { return 1; };
    GetEndVersion = [](const OrtCustomOp*) { return std::numeric_limits<int>::max(); };
    GetMayInplace = [](int** inputs, int** outputs) -> size_t {
      static auto from = in_place(&InPlace::input), to = in_place(&InPlace::output);
      *inputs = from.data();
      *outputs = to.data();
      return from.size();
    };
    ReleaseMayInplace = [](int*, int*) {};
  }

 private:
  struct Kernel {
    const CustomOp& op;
    const Node<Operator> node;
  };

  static std::array<int, Operator::kInPlace.size()> in_place(int InPlace::* side) {
    std::array<int, Operator::kInPlace.size()> indices{};
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = Operator::kInPlace[i].*side;
    return indices;
  }

  // No exception may reach onnxruntime, which may be built by another compiler.
  template <typename Work>
  OrtStatus* guarded(const Work& work) const noexcept {
    try {
      work();
      return nullptr;
    } catch (const InvalidInput& error) {
      return status(kOrtInvalidArgument, error.what());
    } catch (const std::exception& error) {
      return status(kOrtFail, error.what());
    } catch (...) {
      return status(kOrtFail, "an unknown exception");
    }
  }

  OrtStatus* status(OrtErrorCode code, const char* message) const noexcept {
    try {
      return api_.CreateStatus(code, (std::string(Operator::kName) + ": " + message).c_str());
    } catch (const std::exception&) {  // No memory for a longer message.
      return api_.CreateStatus(code, message);
    }
  }

  const OrtApi& api_;
  const Simd& simd_;
};

}  // namespace xuanzang
