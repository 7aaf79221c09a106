//! Giving up privileges. Only system calls: it is done between fork and exec as well.
#![allow(unsafe_code)]

use rustix::io::Errno;

use super::enter::{check, prctl};

/// More than any kernel has capabilities.
const CAPABILITIES_MAX: u64 = 64;
/// Of `capset`, which knows 64 capabilities in two halves.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: libc::c_int,
}

/// Effective, permitted and inheritable, for the lower and the upper half.
type CapabilitySets = [u32; 6];

fn set_capabilities(sets: &CapabilitySets) -> Result<(), Errno> {
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    // SAFETY: header and sets are as this version of the call reads them.
    check(unsafe { libc::syscall(libc::SYS_capset, &header, sets.as_ptr()) }).map(drop)
}

/// Becomes another user for good, with no groups. Whatever root could do is gone with that.
pub(crate) fn become_user(uid: u32, gid: u32) -> Result<(), Errno> {
    // SAFETY: plain system calls; the C library's own would first speak to threads that a forked copy lacks.
    unsafe {
        check(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
        check(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        check(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
    }
    keep_user()
}

/// After a change of user, or as a copy of who may not be looked at, a process's own files in /proc would be root's.
pub(super) fn keep_user() -> Result<(), Errno> {
    prctl(libc::PR_SET_DUMPABLE, 1)
}

pub(crate) fn drop_capabilities() -> Result<(), Errno> {
    for capability in 0..CAPABILITIES_MAX {
        match prctl(libc::PR_CAPBSET_DROP, capability) {
            Ok(()) => {}
            // Beyond the last one that this kernel knows.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno),
        }
    }
    set_capabilities(&[0; 6])
}

/// Uses again what a change of user has left unused.
pub(super) fn raise_capabilities() -> Result<(), Errno> {
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    let mut sets: CapabilitySets = [0; 6];
    // SAFETY: header and sets are as this version of the call writes them.
    check(unsafe { libc::syscall(libc::SYS_capget, &header, sets.as_mut_ptr()) })?;
    // Effective and permitted lie beside each other.
    (sets[0], sets[3]) = (sets[1], sets[4]);
    set_capabilities(&sets)
}

/// For the suite's control: what an unwatched launcher would leave.
pub(super) fn keep_capabilities() -> Result<(), Errno> {
    set_capabilities(&[u32::MAX, u32::MAX, u32::MAX, 0x1ff, 0x1ff, 0x1ff])?;
    for capability in 0..CAPABILITIES_MAX {
        // SAFETY: changes only this process. Unknown ones are refused, which is as good.
        unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, capability, 0, 0) };
    }
    Ok(())
}
