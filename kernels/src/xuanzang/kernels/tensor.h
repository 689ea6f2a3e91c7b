// Tensors of onnxruntime.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "onnxruntime_check.h"

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

template <typename T>
T* data_of(const OrtApi& api, OrtValue* value) {
  void* pointer = nullptr;
  check(api, api.GetTensorMutableData(value, &pointer));
  return static_cast<T*>(pointer);
}

template <typename T>
Tensor<T> tensor_of(const OrtApi& api, const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(api, api.GetTensorTypeAndShape(value, &info));
  const Owned<OrtTensorTypeAndShapeInfo> owned(info, api.ReleaseTensorTypeAndShapeInfo);
  Tensor<T> tensor;
  check(api, api.GetDimensionsCount(info, &tensor.rank));
  require(tensor.rank <= kMaxRank, "an input has too many dimensions");
  check(api, api.GetDimensions(info, tensor.shape.data(), tensor.rank));
  tensor.data = data_of<T>(api, const_cast<OrtValue*>(value));
  return tensor;
}

}  // namespace xuanzang
