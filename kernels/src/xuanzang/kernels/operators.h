// The operators of the library for each instruction set, and the onnxruntime that they work with.
#pragma once

#include <deque>

#include "custom_op.h"

namespace xuanzang {

class Operators;

// They live as long as the process: sessions share them, and any session may be the last one.
class Library {
 public:
  // Returns the library of the onnxruntime that asks for operators, which is the same for the whole process.
  static const Library& of(const OrtApiBase& base);
  // Returns it for an onnxruntime that has asked for operators before. Throws std::logic_error if none has.
  static const Library& known();

  const OrtApi& api() const { return api_; }

  // Adds the operators for the chosen instruction set to the options of a session. Throws std::invalid_argument if
  // XUANZANG_KERNELS_ISA is wrong.
  void add_to(OrtSessionOptions* options) const;

  Library(const Library&) = delete;

 private:
  explicit Library(const OrtApi& api);

  const OrtApi& api_;
  std::deque<Operators> operators_;
};

}  // namespace xuanzang
