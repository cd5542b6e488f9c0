// What DirectML.h needs of Windows' headers, under the same names: integers, HRESULT, GUID,
// IUnknown.
#pragma once

#include <stdint.h>
#ifdef __cplusplus
#include <cstring>
#include <type_traits>
#endif

// Windows' own headers have these names, and so has the adapter of DirectX-Headers for Linux, which
// defines COM_NO_WINDOWS_H.
#if !defined(_WIN32) && !defined(COM_NO_WINDOWS_H)

typedef int32_t INT;
typedef uint32_t UINT;
typedef uint32_t ULONG;
typedef uint8_t BYTE;
typedef int8_t INT8;
typedef uint8_t UINT8;
typedef int16_t INT16;
typedef uint16_t UINT16;
typedef int32_t INT32;
typedef uint32_t UINT32;
typedef int64_t INT64;
typedef uint64_t UINT64;
typedef float FLOAT;
typedef double DOUBLE;
typedef int32_t BOOL;  // any non-zero value is true

#ifndef TRUE
#define TRUE 1
#endif
#ifndef FALSE
#define FALSE 0
#endif

#ifndef __cplusplus

#define DEFINE_ENUM_FLAG_OPERATORS(Flags)

#else

typedef const wchar_t* PCWSTR;  // wchar_t has 4 bytes on Linux

typedef int32_t HRESULT;  // negative: failed
#define SUCCEEDED(hr) (HRESULT(hr) >= 0)
#define FAILED(hr) (HRESULT(hr) < 0)
#define S_OK HRESULT(0)
#define S_FALSE HRESULT(1)
#define E_NOTIMPL HRESULT(0x80004001)
#define E_NOINTERFACE HRESULT(0x80004002)
#define E_POINTER HRESULT(0x80004003)
#define E_FAIL HRESULT(0x80004005)
#define E_UNEXPECTED HRESULT(0x8000FFFF)
#define E_OUTOFMEMORY HRESULT(0x8007000E)
#define E_INVALIDARG HRESULT(0x80070057)
#define DXGI_ERROR_NOT_FOUND HRESULT(0x887A0002)
#define DXGI_ERROR_MORE_DATA HRESULT(0x887A0003)
#define DXGI_ERROR_UNSUPPORTED HRESULT(0x887A0004)
#define DXGI_ERROR_DEVICE_REMOVED HRESULT(0x887A0005)

struct GUID {
  uint32_t Data1;
  uint16_t Data2, Data3;
  uint8_t Data4[8];
};
typedef GUID IID;
#define REFGUID const GUID&
#define REFIID const IID&

inline bool operator==(REFGUID a, REFGUID b) { return std::memcmp(&a, &b, sizeof(GUID)) == 0; }
inline bool operator!=(REFGUID a, REFGUID b) { return !(a == b); }

/// An interface's identifier, which each interface specializes.
template <typename T>
constexpr GUID uuidof() = delete;
#define __uuidof(interface_type) uuidof<interface_type>()

struct IUnknown {
  virtual HRESULT QueryInterface(REFIID riid, void** ppv) = 0;
  virtual ULONG AddRef() = 0;
  virtual ULONG Release() = 0;

  template <class T>
  HRESULT QueryInterface(T** pp) {
    return QueryInterface(uuidof<T>(), reinterpret_cast<void**>(pp));
  }

 protected:
  ~IUnknown() = default;  // Release destroys
};

template <>
constexpr GUID uuidof<IUnknown>() {
  return {0x00000000, 0x0000, 0x0000, {0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x46}};
}

template <typename T>
void** IID_PPV_ARGS_Helper(T** pp) {
  static_cast<void>(static_cast<IUnknown*>(*pp));  // refuses what is no interface
  return reinterpret_cast<void**>(pp);
}

/// The two last arguments of a method that returns an interface.
#define IID_PPV_ARGS(pp) \
  uuidof<std::remove_reference_t<decltype(**(pp))>>(), IID_PPV_ARGS_Helper(pp)

#define DEFINE_ENUM_FLAG_OPERATORS(Flags)                                        \
  constexpr Flags operator|(Flags a, Flags b) { return Flags(INT(a) | INT(b)); } \
  constexpr Flags operator&(Flags a, Flags b) { return Flags(INT(a) & INT(b)); } \
  constexpr Flags operator^(Flags a, Flags b) { return Flags(INT(a) ^ INT(b)); } \
  constexpr Flags operator~(Flags a) { return Flags(~INT(a)); }                  \
  constexpr Flags& operator|=(Flags& a, Flags b) { return a = a | b; }           \
  constexpr Flags& operator&=(Flags& a, Flags b) { return a = a & b; }           \
  constexpr Flags& operator^=(Flags& a, Flags b) { return a = a ^ b; }

#endif  // __cplusplus
#endif
