// onnxruntime's interface held against the running library, and its errors as exceptions.
#pragma once

#include <memory>
#include <stdexcept>

#include "onnxruntime_abi.h"

namespace xuanzang {

// The versions of onnxruntime that these kernels work with: at least 1.kMinMinor, below 2.
constexpr long kMajor = 1, kMinMinor = 23;

// These kernels do not work with the running onnxruntime.
struct Incompatible : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An object of onnxruntime, released at the end.
template <typename T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

// Throws the message of a status, if there is one, and releases the status.
void check(const OrtApi& api, OrtStatus* status);

// Returns the functions of the running onnxruntime.
//
// Checks its version, that each function that is used exists, and that a status and a tensor that go through them come
// back unchanged. Throws Incompatible.
const OrtApi& checked_api(const OrtApiBase& base);

// Returns a status with a message from an onnxruntime that may be incompatible; null if it cannot make one.
OrtStatus* status_of(const OrtApiBase& base, OrtErrorCode code, const char* message) noexcept;

}  // namespace xuanzang
