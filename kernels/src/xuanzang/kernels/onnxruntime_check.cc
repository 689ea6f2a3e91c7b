#include "onnxruntime_check.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

namespace xuanzang {
namespace {

void check_version(const OrtApiBase& base) {
  const char* const version = base.GetVersionString ? base.GetVersionString() : nullptr;
  char* end = nullptr;
  const long major = version ? std::strtol(version, &end, 10) : 0;
  const long minor = version && *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
  if (major == kMajor && minor >= kMinMinor) return;
  throw Incompatible("onnxruntime is " + std::string(version ? version : "of no version") + ", not " +
                     std::to_string(kMajor) + "." + std::to_string(kMinMinor) + " or a later 1.x");
}

template <typename... Functions>
bool all_exist(Functions... functions) {
  return (... && (functions != nullptr));
}

bool is_complete(const OrtApi& api) {
  return all_exist(
      api.CreateStatus, api.GetErrorMessage, api.ReleaseStatus, api.CreateCustomOpDomain, api.CustomOpDomain_Add,
      api.AddCustomOpDomain, api.ReleaseCustomOpDomain, api.CreateCpuMemoryInfo, api.ReleaseMemoryInfo,
      api.CreateTensorWithDataAsOrtValue, api.ReleaseValue, api.GetTensorMutableData, api.GetTensorTypeAndShape,
      api.ReleaseTensorTypeAndShapeInfo, api.GetTensorElementType, api.GetDimensionsCount, api.GetDimensions,
      api.KernelContext_GetInput, api.KernelContext_GetOutput, api.KernelInfoGetConstantInput_tensor,
      api.KernelContext_ParallelFor, api.CreateEnv, api.CreateSession, api.ReleaseSession, api.CreateSessionOptions,
      api.ReleaseSessionOptions, api.DisableMemPattern, api.SetSessionLogSeverityLevel, api.SetIntraOpNumThreads,
      api.SetInterOpNumThreads, api.DisablePerSessionThreads, api.AddSessionConfigEntry, api.SessionGetInputCount,
      api.SessionGetOutputCount, api.SessionGetInputName, api.SessionGetOutputName, api.AllocatorFree,
      api.GetAllocatorWithDefaultOptions, api.CreateRunOptions, api.ReleaseRunOptions, api.AddRunConfigEntry,
      api.CreateIoBinding, api.ReleaseIoBinding, api.BindInput, api.BindOutput, api.RunWithBinding);
}

bool keeps_a_message(const OrtApi& api) {
  constexpr const char* kMessage = "probe";
  const Owned<OrtStatus> status(api.CreateStatus(kOrtFail, kMessage), api.ReleaseStatus);
  return status && !std::strcmp(api.GetErrorMessage(status.get()), kMessage);
}

bool keeps_a_tensor(const OrtApi& api) {
  std::array<int64_t, 6> numbers{};
  const std::array<int64_t, 2> shape{2, 3};
  OrtMemoryInfo* memory = nullptr;
  check(api, api.CreateCpuMemoryInfo(kOrtDeviceAllocator, kOrtDefaultMemory, &memory));
  const Owned<OrtMemoryInfo> owned_memory(memory, api.ReleaseMemoryInfo);
  OrtValue* value = nullptr;
  check(api, api.CreateTensorWithDataAsOrtValue(memory, numbers.data(), sizeof numbers, shape.data(), shape.size(),
                                                kOrtInt64, &value));
  const Owned<OrtValue> owned_value(value, api.ReleaseValue);
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(api, api.GetTensorTypeAndShape(value, &info));
  const Owned<OrtTensorTypeAndShapeInfo> owned_info(info, api.ReleaseTensorTypeAndShapeInfo);
  void* data = nullptr;
  size_t rank = 0;
  OrtElementType type = kOrtFloat;
  std::array<int64_t, 2> found{};
  check(api, api.GetTensorMutableData(value, &data));
  check(api, api.GetTensorElementType(info, &type));
  check(api, api.GetDimensionsCount(info, &rank));
  if (rank != shape.size()) return false;
  check(api, api.GetDimensions(info, found.data(), rank));
  return data == numbers.data() && type == kOrtInt64 && found == shape;
}

}  // namespace

void check(const OrtApi& api, OrtStatus* status) {
  if (!status) return;
  const Owned<OrtStatus> owned(status, api.ReleaseStatus);
  throw std::runtime_error(api.GetErrorMessage(status));
}

const OrtApi& checked_api(const OrtApiBase& base) {
  check_version(base);
  const OrtApi* const api = base.GetApi ? base.GetApi(kOrtApiVersion) : nullptr;
  if (!api) throw Incompatible("onnxruntime lacks version " + std::to_string(kOrtApiVersion) + " of its C interface");
  if (!is_complete(*api)) throw Incompatible("onnxruntime's C interface lacks a function");
  if (!keeps_a_message(*api) || !keeps_a_tensor(*api)) {
    throw Incompatible("onnxruntime's C interface does not return what it is given");
  }
  return *api;
}

OrtStatus* status_of(const OrtApiBase& base, OrtErrorCode code, const char* message) noexcept {
  // The first function has been this one since the first version of the interface.
  const OrtApi* const api = base.GetApi ? base.GetApi(1) : nullptr;
  return api && api->CreateStatus ? api->CreateStatus(code, message) : nullptr;
}

}  // namespace xuanzang
