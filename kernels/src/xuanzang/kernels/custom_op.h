// Custom operators of onnxruntime as C++ classes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>

#include "onnxruntime_abi.h"

namespace xuanzang {

constexpr size_t kMaxRank = 4;

// An input or output in the memory of the process, contiguous.
template <typename T>
struct Tensor {
  T* data = nullptr;
  std::array<int64_t, kMaxRank> shape{};
  size_t rank = 0;

  size_t size(size_t axis) const { return static_cast<size_t>(shape[axis]); }

  size_t elements() const {
    size_t count = 1;
    for (size_t axis = 0; axis < rank; ++axis) count *= size(axis);
    return count;
  }
};

// A wrong input; onnxruntime ends the run with its message.
struct InvalidInput : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

inline void require(bool holds, const char* what) {
  if (!holds) throw InvalidInput(what);
}

// Inputs, outputs and threads of one call of an operator.
class Context {
 public:
  Context(const OrtApi& api, OrtKernelContext* context) : api_(api), context_(context) {}

  template <typename T>
  Tensor<const T> input(size_t index) const {
    const OrtValue* value = nullptr;
    check(api_.KernelContext_GetInput(context_, index, &value));
    Tensor<const T> tensor;
    OrtTensorTypeAndShapeInfo* info = nullptr;
    check(api_.GetTensorTypeAndShape(value, &info));
    check(api_.GetDimensionsCount(info, &tensor.rank));
    const bool fits = tensor.rank <= kMaxRank;
    if (fits) check(api_.GetDimensions(info, tensor.shape.data(), tensor.rank));
    api_.ReleaseTensorTypeAndShapeInfo(info);
    require(fits, "an input has too many dimensions");
    tensor.data = data<const T>(const_cast<OrtValue*>(value));
    return tensor;
  }

  // Returns no data if nobody wants the output.
  template <typename T>
  Tensor<T> output(size_t index, std::initializer_list<size_t> shape) const {
    Tensor<T> tensor;
    for (size_t size : shape) tensor.shape[tensor.rank++] = static_cast<int64_t>(size);
    return allocated(index, tensor);
  }

  // Of the shape of another tensor.
  template <typename T, typename Other>
  Tensor<T> output(size_t index, const Tensor<Other>& like) const {
    return allocated(index, Tensor<T>{nullptr, like.shape, like.rank});
  }

  // Calls work(index) for every index below count, on several threads if the session has them and it pays.
  //
  // operations: multiplications of all calls together; threads are not worth waking for few.
  template <typename Work>
  void parallel(size_t count, size_t operations, const Work& work) const {
    constexpr size_t kWorthwhile = 1'000'000;
    if (operations < kWorthwhile) {
      for (size_t index = 0; index < count; ++index) work(index);
      return;
    }
    const auto call = [](void* work, size_t index) { (*static_cast<const Work*>(work))(index); };
    check(api_.KernelContext_ParallelFor(context_, call, count, 0, const_cast<Work*>(&work)));
  }

 private:
  // onnxruntime fails here only if an operator is not what it says of itself.
  static void check(OrtStatus* status) {
    if (status) throw std::runtime_error("onnxruntime refused a call of an operator");
  }

  template <typename T>
  Tensor<T> allocated(size_t index, Tensor<T> tensor) const {
    OrtValue* value = nullptr;
    check(api_.KernelContext_GetOutput(context_, index, tensor.shape.data(), tensor.rank, &value));
    if (value) tensor.data = data<T>(value);
    return tensor;
  }

  template <typename T>
  T* data(OrtValue* value) const {
    void* pointer = nullptr;
    check(api_.GetTensorMutableData(value, &pointer));
    return static_cast<T*>(pointer);
  }

  const OrtApi& api_;
  OrtKernelContext* context_;
};

// An output that may take the memory of an input of its size.
struct InPlace {
  int input;
  int output;
};

// Describes an operator to onnxruntime. An Operator has kName, kInputs and kOutputs (types), kInPlace, and
// compute(Context&).
template <typename Operator>
class Description : public OrtCustomOp {
 public:
  explicit Description(const OrtApi& api) : OrtCustomOp{}, api_(api) {
    version = kOrtApiVersion;
    GetName = [](const OrtCustomOp*) { return Operator::kName; };
    GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return "CPUExecutionProvider"; };
    GetInputType = [](const OrtCustomOp*, size_t index) { return Operator::kInputs[index]; };
    GetInputTypeCount = [](const OrtCustomOp*) { return std::size(Operator::kInputs); };
    GetOutputType = [](const OrtCustomOp*, size_t index) { return Operator::kOutputs[index]; };
    GetOutputTypeCount = [](const OrtCustomOp*) { return std::size(Operator::kOutputs); };
    KernelDestroy = [](void*) {};
    GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return kOrtRequired; };
    GetOutputCharacteristic = [](const OrtCustomOp*, size_t index) { return index ? kOrtOptional : kOrtRequired; };
    GetInputMemoryType = [](const OrtCustomOp*, size_t) { return kOrtDefaultMemory; };
    GetVariadicInputMinArity = GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return 0; };
    GetVariadicOutputMinArity = GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 0; };
    CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi*, const OrtKernelInfo*, void** kernel) -> OrtStatus* {
      *kernel = const_cast<OrtCustomOp*>(self);  // An operator has no state of its own.
      return nullptr;
    };
    KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
      return static_cast<const Description*>(static_cast<OrtCustomOp*>(kernel))->compute(context);
    };
    GetStartVersion = [](const OrtCustomOp*) { return 1; };
    GetEndVersion = [](const OrtCustomOp*) { return std::numeric_limits<int>::max(); };
    GetMayInplace = [](int** inputs, int** outputs) -> size_t {
      static std::array<int, Operator::kInPlace.size()> from, to;
      for (size_t i = 0; i < from.size(); ++i)
        from[i] = Operator::kInPlace[i].input, to[i] = Operator::kInPlace[i].output;
      *inputs = from.data(), *outputs = to.data();
      return from.size();
    };
    ReleaseMayInplace = [](int*, int*) {};
  }

 private:
  // No exception may reach onnxruntime, which may be built by another compiler.
  OrtStatus* compute(OrtKernelContext* context) const {
    const auto name = [](const std::exception& error) { return std::string(Operator::kName) + ": " + error.what(); };
    try {
      Operator::compute(Context(api_, context));
      return nullptr;
    } catch (const InvalidInput& error) {
      return api_.CreateStatus(kOrtInvalidArgument, name(error).c_str());
    } catch (const std::exception& error) {
      return api_.CreateStatus(kOrtFail, name(error).c_str());
    }
  }

  const OrtApi& api_;
};

}  // namespace xuanzang
