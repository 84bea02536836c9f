//! Finds the C library's function that a function of this library replaces.

use std::ffi::CStr;

/// The next function of this name in the order of libraries.
///
/// # Safety
/// `F` must be the type of that function. The name must end with a NUL byte.
pub(crate) unsafe fn next<F: Copy>(name: &'static str) -> F {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("the name ends with its zero");
    // SAFETY: the name is a NUL-terminated string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "the C library has every function that is replaced here");
    assert_eq!(size_of::<F>(), size_of_val(&found), "F is a pointer to a function");
    // SAFETY: the caller guarantees the type, and both are pointers.
    unsafe { std::mem::transmute_copy(&found) }
}
