// Matrices of 8-bit integers as kernels take them.
#pragma once

#include <memory>
#include <vector>

#include "custom_op.h"

namespace xuanzang {

// A matrix of 8-bit integers [depth, column] with the numbers that turn products into floats.
struct QuantizedMatrix {
  // Reads the five inputs from number `first` on; `Source` is Context or Constants.
  template <typename Source>
  static QuantizedMatrix read(const Source& source, size_t first) {
    return {source.template input<int8_t>(first), source.template input<float>(first + 1),
            source.template input<float>(first + 2), source.template input<uint8_t>(first + 3),
            source.template input<float>(first + 4)};
  }

  bool exists() const { return integers.data && x_scale.data && scale.data && x_zero.data && bias.data; }

  Tensor<const int8_t> integers;
  Tensor<const float> x_scale, scale;
  Tensor<const uint8_t> x_zero;
  Tensor<const float> bias;
};

// Such a matrix in the order of `Panels`.
class PackedColumns {
 public:
  PackedColumns() = default;
  explicit PackedColumns(const QuantizedMatrix& matrix);

  // Takes the integers from where other processes have the same, if there is such a place.
  void share();

  // These columns or, if there are none, the columns of a run, whose inputs begin with number `first`.
  const PackedColumns& or_read(const Context& context, size_t first, PackedColumns& given) const {
    if (vocab_size_) return *this;
    given = PackedColumns(QuantizedMatrix::read(context, first));
    return given;
  }

  size_t width() const { return width_; }
  size_t depth() const { return depth_; }
  size_t vocab_size() const { return vocab_size_; }
  size_t blocks() const { return (vocab_size_ + kBlock - 1) / kBlock; }
  size_t block_size(size_t block) const { return std::min(kBlock, vocab_size_ - block * kBlock); }
  float x_scale() const { return x_scale_; }
  float x_zero() const { return x_zero_; }
  Panels panels() const {
    const auto zero = static_cast<int32_t>(x_zero_);
    return {integers_.get(), start_.data(), scale_.data(), bias_.data(), depth_, start_.size(), zero};
  }

 private:
  // Packs the columns of the panel that begins with column `first`.
  void pack_panel(const QuantizedMatrix& matrix, size_t first, int8_t* packed);

  size_t width_ = 0, depth_ = 0, vocab_size_ = 0;
  float x_scale_ = 1, x_zero_ = 0;
  std::shared_ptr<const int8_t> integers_;
  std::vector<int32_t> start_;
  std::vector<float> scale_, bias_;
};

// The matrix whose inputs begin with number `first`, if it never changes; no columns otherwise.
PackedColumns kept_columns(const Constants& constants, size_t first);

}  // namespace xuanzang
