#include "simd.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

// Compilers that know AMX come with assemblers that do; only Linux is asked for it.
#if defined(__x86_64__) && defined(__linux__) && (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define XUANZANG_HAS_AMX
#include <sys/syscall.h>
#include <unistd.h>
#endif

// Each instruction set is compiled from the same lines. These use no inline function of the standard library: the
// linker would keep one of its versions for all.
#define XUANZANG_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define XUANZANG_BEGIN(features) \
  XUANZANG_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define XUANZANG_END XUANZANG_PRAGMA(clang attribute pop)
#else
#define XUANZANG_BEGIN(features) XUANZANG_PRAGMA(GCC push_options) XUANZANG_PRAGMA(GCC target(features))
#define XUANZANG_END XUANZANG_PRAGMA(GCC pop_options)
#endif

#if defined(__x86_64__)

XUANZANG_BEGIN("avx2,fma")
#define XUANZANG_WIDTH 8
#define XUANZANG_ISA "avx2"
namespace xuanzang::avx2 {
#include "simd.inc"
}
#undef XUANZANG_ISA
#undef XUANZANG_WIDTH
XUANZANG_END

#if defined(XUANZANG_HAS_AMX)
XUANZANG_BEGIN("avx2,fma,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vnni")
#define XUANZANG_WIDTH 16
#define XUANZANG_VNNI
#define XUANZANG_AMX
#define XUANZANG_ISA "amx"
namespace xuanzang::amx {
#include "simd.inc"
}
#undef XUANZANG_AMX
#undef XUANZANG_VNNI
#undef XUANZANG_ISA
#undef XUANZANG_WIDTH
XUANZANG_END
#endif

XUANZANG_BEGIN("avx2,fma,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vnni")
#define XUANZANG_WIDTH 16
#define XUANZANG_VNNI
#define XUANZANG_ISA "avx512_vnni"
namespace xuanzang::avx512_vnni {
#include "simd.inc"
}
#undef XUANZANG_VNNI
#undef XUANZANG_ISA
#undef XUANZANG_WIDTH
XUANZANG_END

XUANZANG_BEGIN("avx2,fma,avx512f,avx512bw,avx512cd,avx512dq,avx512vl")
#define XUANZANG_WIDTH 16
#define XUANZANG_ISA "avx512"
namespace xuanzang::avx512 {
#include "simd.inc"
}
#undef XUANZANG_ISA
#undef XUANZANG_WIDTH
XUANZANG_END

#endif

#define XUANZANG_WIDTH 4
#define XUANZANG_ISA "generic"
namespace xuanzang::generic {
#include "simd.inc"
}
#undef XUANZANG_ISA
#undef XUANZANG_WIDTH

namespace xuanzang {
namespace {

constexpr const char* kForcedIsa = "XUANZANG_KERNELS_ISA";

#if defined(XUANZANG_HAS_AMX)

// True if the processor multiplies 8-bit matrices in tiles, and the system permits it to this process.
bool may_use_tiles() {
  constexpr unsigned kTiles = 1u << 24, kIntegers = 1u << 25;
  constexpr long kAskForState = 0x1023, kTileData = 18;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && edx & kTiles && edx & kIntegers &&
         syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
}

#endif

std::vector<const Simd*> find_supported() {
  std::vector<const Simd*> supported;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  const bool has_vnni = has_avx512 && __builtin_cpu_supports("avx512vnni");
#if defined(XUANZANG_HAS_AMX)
  if (has_vnni && may_use_tiles()) supported.push_back(&amx::kSimd);
#endif
  if (has_vnni) supported.push_back(&avx512_vnni::kSimd);
  if (has_avx512) supported.push_back(&avx512::kSimd);
  if (has_avx2) supported.push_back(&avx2::kSimd);
#endif
  supported.push_back(&generic::kSimd);
  return supported;
}

bool is_forced() {
  const char* const forced = std::getenv(kForcedIsa);
  return forced && *forced;
}

}  // namespace

const std::vector<const Simd*>& supported_simd() {
  static const std::vector<const Simd*> supported = find_supported();
  return supported;
}

const Simd* chosen_simd() {
  if (!is_forced()) return supported_simd().front();
  const char* const forced = std::getenv(kForcedIsa);
  for (const Simd* simd : supported_simd()) {
    if (!std::strcmp(simd->isa, forced)) return simd;
  }
  return nullptr;
}

}  // namespace xuanzang
