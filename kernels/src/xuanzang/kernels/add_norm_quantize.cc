#include "add_norm_quantize.h"

#include <cmath>
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

// Scale and zero point of the integers.
struct Integers {
  Integers(const Context& context, size_t first)
      : scale(context.input<float>(first)), zero(context.input<uint8_t>(first + 1)) {
    require(scale.elements() == 1 && scale.data[0] > 0 && zero.elements() == 1, "the scale is not a positive number");
  }

  float step() const { return scale.data[0]; }
  float middle() const { return static_cast<float>(zero.data[0]); }

  Tensor<const float> scale;
  Tensor<const uint8_t> zero;
};

void add_norm_quantize(const Context& context, float epsilon, const Rounding& rounding) {
  const auto x = context.input<float>(0), delta = context.input<float>(1);
  const auto weight = context.input<float>(2), bias = context.input<float>(3);
  const Addend addend(x, delta);
  const size_t width = x.size(x.rank - 1), rows = width ? x.elements() / width : 0;
  require(weight.elements() == width && bias.elements() == width, "weight and bias are not as wide as x");

  const auto quantized = context.output<uint8_t>(0, x);
  const auto sums = context.output<float>(1, x), normed = context.output<float>(2, x);
  const Norm norm{weight.data, bias.data, width, epsilon, rounding};
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

}  // namespace

void AddNormQuantize::compute(const Context& context) {
  const Integers integers(context, 4);
  add_norm_quantize(context, 1.0e-5f, {1.0f / integers.step(), integers.middle(), -integers.middle()});
}

void AddNormClipQuantize::compute(const Context& context) {
  const auto low = context.input<float>(4), high = context.input<float>(5);
  const Integers integers(context, 6);
  require(low.elements() == 1 && high.elements() == 1, "a bound is not one number");
  const float least = std::nearbyint(low.data[0] / integers.step());
  const float greatest = std::nearbyint(high.data[0] / integers.step());
  require(least >= -integers.middle(), "the lower bound is below the integers");
  // Integers end there by themselves.
  require(greatest == 255.0f - integers.middle(), "the upper bound is not that of the integers");
  add_norm_quantize(context, 1.0e-6f, {1.0f / integers.step(), integers.middle(), least});
}

}  // namespace xuanzang
