// The part of onnxruntime's C interface that custom operators, and sessions with them, need.
//
// No package carries onnxruntime's header. The interface is a table of functions that only grows at its end, so the
// slots of these functions are the same in every version 1.x since 1.18. `checked_api` of onnxruntime_check.h holds the
// table against the running library before anything else uses it.
#pragma once

#include <cstddef>
#include <cstdint>

struct OrtAllocator;
struct OrtCustomOp;
struct OrtCustomOpDomain;
struct OrtEnv;
struct OrtIoBinding;
struct OrtKernelContext;
struct OrtKernelInfo;
struct OrtMemoryInfo;
struct OrtRunOptions;
struct OrtSession;
struct OrtSessionOptions;
struct OrtShapeInferContext;
struct OrtStatus;
struct OrtTensorTypeAndShapeInfo;
struct OrtValue;

constexpr uint32_t kOrtApiVersion = 18;

enum OrtErrorCode { kOrtFail = 1, kOrtInvalidArgument = 2 };
enum OrtElementType { kOrtFloat = 1, kOrtUint8 = 2, kOrtInt8 = 3, kOrtInt64 = 7, kOrtBool = 9 };
enum OrtCharacteristic { kOrtRequired = 0, kOrtOptional = 1 };
enum OrtMemoryType { kOrtDefaultMemory = 0 };
enum OrtAllocatorType { kOrtDeviceAllocator = 0 };
enum OrtLoggingLevel { kOrtError = 3 };

struct OrtApi {
  OrtStatus* (*CreateStatus)(OrtErrorCode, const char* message);
  void* unused_1;
  const char* (*GetErrorMessage)(const OrtStatus*);
  OrtStatus* (*CreateEnv)(OrtLoggingLevel, const char* name, OrtEnv**);
  void* unused_4[3];
  OrtStatus* (*CreateSession)(const OrtEnv*, const char* path, const OrtSessionOptions*, OrtSession**);
  void* unused_8[2];
  OrtStatus* (*CreateSessionOptions)(OrtSessionOptions**);
  void* unused_11[6];
  OrtStatus* (*DisableMemPattern)(OrtSessionOptions*);
  void* unused_18[4];
  OrtStatus* (*SetSessionLogSeverityLevel)(OrtSessionOptions*, int level);
  void* unused_23;
  OrtStatus* (*SetIntraOpNumThreads)(OrtSessionOptions*, int count);
  OrtStatus* (*SetInterOpNumThreads)(OrtSessionOptions*, int count);
  OrtStatus* (*CreateCustomOpDomain)(const char* domain, OrtCustomOpDomain**);
  OrtStatus* (*CustomOpDomain_Add)(OrtCustomOpDomain*, const OrtCustomOp*);
  OrtStatus* (*AddCustomOpDomain)(OrtSessionOptions*, OrtCustomOpDomain*);
  void* unused_29;
  OrtStatus* (*SessionGetInputCount)(const OrtSession*, size_t*);
  OrtStatus* (*SessionGetOutputCount)(const OrtSession*, size_t*);
  void* unused_32[4];
  OrtStatus* (*SessionGetInputName)(const OrtSession*, size_t index, OrtAllocator*, char**);
  OrtStatus* (*SessionGetOutputName)(const OrtSession*, size_t index, OrtAllocator*, char**);
  void* unused_38;
  OrtStatus* (*CreateRunOptions)(OrtRunOptions**);
  void* unused_40[9];
  OrtStatus* (*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo*, void* data, size_t bytes, const int64_t* shape,
                                               size_t rank, OrtElementType, OrtValue**);
  void* unused_50;
  OrtStatus* (*GetTensorMutableData)(OrtValue*, void**);
  void* unused_52[8];
  OrtStatus* (*GetTensorElementType)(const OrtTensorTypeAndShapeInfo*, OrtElementType*);
  OrtStatus* (*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo*, size_t*);
  OrtStatus* (*GetDimensions)(const OrtTensorTypeAndShapeInfo*, int64_t*, size_t count);
  void* unused_63[2];
  OrtStatus* (*GetTensorTypeAndShape)(const OrtValue*, OrtTensorTypeAndShapeInfo**);
  void* unused_66[3];
  OrtStatus* (*CreateCpuMemoryInfo)(OrtAllocatorType, OrtMemoryType, OrtMemoryInfo**);
  void* unused_70[6];
  OrtStatus* (*AllocatorFree)(OrtAllocator*, void*);
  void* unused_77;
  OrtStatus* (*GetAllocatorWithDefaultOptions)(OrtAllocator**);
  void* unused_79[11];
  OrtStatus* (*KernelContext_GetInput)(const OrtKernelContext*, size_t index, const OrtValue**);
  OrtStatus* (*KernelContext_GetOutput)(OrtKernelContext*, size_t index, const int64_t* shape, size_t rank, OrtValue**);
  void* unused_92;
  void (*ReleaseStatus)(OrtStatus*);
  void (*ReleaseMemoryInfo)(OrtMemoryInfo*);
  void (*ReleaseSession)(OrtSession*);
  void (*ReleaseValue)(OrtValue*);
  void (*ReleaseRunOptions)(OrtRunOptions*);
  void* unused_98;
  void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo*);
  void (*ReleaseSessionOptions)(OrtSessionOptions*);
  void (*ReleaseCustomOpDomain)(OrtCustomOpDomain*);
  void* unused_102[18];
  OrtStatus* (*DisablePerSessionThreads)(OrtSessionOptions*);
  void* unused_121[9];
  OrtStatus* (*AddSessionConfigEntry)(OrtSessionOptions*, const char* key, const char* value);
  void* unused_131[2];
  OrtStatus* (*RunWithBinding)(OrtSession*, const OrtRunOptions*, const OrtIoBinding*);
  OrtStatus* (*CreateIoBinding)(OrtSession*, OrtIoBinding**);
  void (*ReleaseIoBinding)(OrtIoBinding*);
  OrtStatus* (*BindInput)(OrtIoBinding*, const char* name, const OrtValue*);
  OrtStatus* (*BindOutput)(OrtIoBinding*, const char* name, const OrtValue*);
  void* unused_138[27];
  OrtStatus* (*AddRunConfigEntry)(OrtRunOptions*, const char* key, const char* value);
  void* unused_166[83];
  OrtStatus* (*KernelInfoGetConstantInput_tensor)(const OrtKernelInfo*, size_t index, int* is_constant,
                                                  const OrtValue**);
  void* unused_250[24];
  OrtStatus* (*KernelContext_ParallelFor)(const OrtKernelContext*, void (*)(void* work, size_t index), size_t count,
                                          size_t batches, void* work);
};

static_assert(offsetof(OrtApi, GetErrorMessage) == 2 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateSession) == 7 * sizeof(void*));
static_assert(offsetof(OrtApi, DisableMemPattern) == 17 * sizeof(void*));
static_assert(offsetof(OrtApi, SetIntraOpNumThreads) == 24 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateCustomOpDomain) == 26 * sizeof(void*));
static_assert(offsetof(OrtApi, SessionGetInputName) == 36 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateRunOptions) == 39 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateTensorWithDataAsOrtValue) == 49 * sizeof(void*));
static_assert(offsetof(OrtApi, GetTensorMutableData) == 51 * sizeof(void*));
static_assert(offsetof(OrtApi, GetTensorElementType) == 60 * sizeof(void*));
static_assert(offsetof(OrtApi, GetTensorTypeAndShape) == 65 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateCpuMemoryInfo) == 69 * sizeof(void*));
static_assert(offsetof(OrtApi, GetAllocatorWithDefaultOptions) == 78 * sizeof(void*));
static_assert(offsetof(OrtApi, KernelContext_GetInput) == 90 * sizeof(void*));
static_assert(offsetof(OrtApi, ReleaseStatus) == 93 * sizeof(void*));
static_assert(offsetof(OrtApi, ReleaseValue) == 96 * sizeof(void*));
static_assert(offsetof(OrtApi, ReleaseTensorTypeAndShapeInfo) == 99 * sizeof(void*));
static_assert(offsetof(OrtApi, ReleaseCustomOpDomain) == 101 * sizeof(void*));
static_assert(offsetof(OrtApi, DisablePerSessionThreads) == 120 * sizeof(void*));
static_assert(offsetof(OrtApi, AddSessionConfigEntry) == 130 * sizeof(void*));
static_assert(offsetof(OrtApi, RunWithBinding) == 133 * sizeof(void*));
static_assert(offsetof(OrtApi, BindOutput) == 137 * sizeof(void*));
static_assert(offsetof(OrtApi, AddRunConfigEntry) == 165 * sizeof(void*));
static_assert(offsetof(OrtApi, KernelInfoGetConstantInput_tensor) == 249 * sizeof(void*));
static_assert(offsetof(OrtApi, KernelContext_ParallelFor) == 274 * sizeof(void*));

struct OrtApiBase {
  const OrtApi* (*GetApi)(uint32_t version);
  const char* (*GetVersionString)();
};

struct OrtCustomOp {
  uint32_t version;
  void* (*CreateKernel)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*);
  const char* (*GetName)(const OrtCustomOp*);
  const char* (*GetExecutionProviderType)(const OrtCustomOp*);
  OrtElementType (*GetInputType)(const OrtCustomOp*, size_t index);
  size_t (*GetInputTypeCount)(const OrtCustomOp*);
  OrtElementType (*GetOutputType)(const OrtCustomOp*, size_t index);
  size_t (*GetOutputTypeCount)(const OrtCustomOp*);
  void (*KernelCompute)(void* kernel, OrtKernelContext*);
  void (*KernelDestroy)(void* kernel);
  OrtCharacteristic (*GetInputCharacteristic)(const OrtCustomOp*, size_t index);
  OrtCharacteristic (*GetOutputCharacteristic)(const OrtCustomOp*, size_t index);
  OrtMemoryType (*GetInputMemoryType)(const OrtCustomOp*, size_t index);
  int (*GetVariadicInputMinArity)(const OrtCustomOp*);
  int (*GetVariadicInputHomogeneity)(const OrtCustomOp*);
  int (*GetVariadicOutputMinArity)(const OrtCustomOp*);
  int (*GetVariadicOutputHomogeneity)(const OrtCustomOp*);
  OrtStatus* (*CreateKernelV2)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*, void** kernel);
  OrtStatus* (*KernelComputeV2)(void* kernel, OrtKernelContext*);
  OrtStatus* (*InferOutputShapeFn)(const OrtCustomOp*, OrtShapeInferContext*);
  int (*GetStartVersion)(const OrtCustomOp*);
  int (*GetEndVersion)(const OrtCustomOp*);
  size_t (*GetMayInplace)(int** inputs, int** outputs);
  void (*ReleaseMayInplace)(int* inputs, int* outputs);
  size_t (*GetAliasMap)(int** inputs, int** outputs);
  void (*ReleaseAliasMap)(int* inputs, int* outputs);
};
