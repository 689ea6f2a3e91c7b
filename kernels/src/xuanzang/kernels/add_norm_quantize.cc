#include "add_norm_quantize.h"

#include <vector>

namespace xuanzang {
namespace {

// The row of the addend that belongs to each row of x [outer, inner, model].
class Addend {
 public:
  Addend(const Tensor<const float>& x, const Tensor<const float>& delta) {
    require(x.rank >= 1 && x.rank <= 3 && delta.rank >= 1 && delta.rank <= x.rank, "an input has the wrong dimensions");
    require(delta.size(delta.rank - 1) == x.size(x.rank - 1), "x and what is added differ in width");
    inner_ = axis(x, 2);
    outer_step_ = step(axis(x, 3), axis(delta, 3)) * axis(delta, 2);
    inner_step_ = step(inner_, axis(delta, 2));
  }

  size_t row(size_t row) const { return row / inner_ * outer_step_ + row % inner_ * inner_step_; }

 private:
  // The size of an axis, counted from the last, which is 1.
  static size_t axis(const Tensor<const float>& tensor, size_t number) {
    return tensor.rank < number ? 1 : tensor.size(tensor.rank - number);
  }

  static size_t step(size_t size, size_t own) {
    require(own == size || own == 1, "what is added is neither as x nor repeated");
    return own == 1 ? 0 : 1;
  }

  size_t inner_, outer_step_, inner_step_;
};

}  // namespace

void AddNormQuantize::compute(const Context& context) {
  const auto x = context.input<float>(0), delta = context.input<float>(1);
  const auto weight = context.input<float>(2), bias = context.input<float>(3), scale = context.input<float>(4);
  const auto zero = context.input<uint8_t>(5);
  const Addend addend(x, delta);
  const size_t width = x.size(x.rank - 1), rows = width ? x.elements() / width : 0;
  require(weight.elements() == width && bias.elements() == width, "weight and bias are not as wide as x");
  require(scale.elements() == 1 && scale.data[0] > 0 && zero.elements() == 1, "the scale is not a positive number");

  const auto quantized = context.output<uint8_t>(0, x);
  const auto sums = context.output<float>(1, x), normed = context.output<float>(2, x);
  const float integer = static_cast<float>(zero.data[0]);
  const Norm norm{weight.data, bias.data, width, {1.0f / scale.data[0], integer, -integer}};
  constexpr size_t kOperations = 10;
  context.parallel(rows, rows * width * kOperations, [&](size_t row) {
    thread_local std::vector<float> buffer;
    if (!sums.data) buffer.resize(width);
    float* const sum = sums.data ? sums.data + row * width : buffer.data();
    float* const kept = normed.data ? normed.data + row * width : nullptr;
    context.simd().add_norm_quantize(norm, x.data + row * width, delta.data + addend.row(row) * width, sum, kept,
                                     quantized.data + row * width);
  });
}

}  // namespace xuanzang
