//! Signals that commands send to the guest.
//!
//! The kernel drops what a process sends to the first process of its namespace, but not always: while the first
//! thread has signals blocked, as it does each time it starts a process, a signal whose action is the default one may
//! end the whole group. So every signal gets a handler that does nothing. A handler, unlike ignoring, is not inherited
//! by the programs that the guest starts.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;

/// Raised by the processor for the guest's own faults, which must stay fatal.
const FAULTS: [libc::c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
/// Not to be handled: two that cannot be, and those of no consequence which other parts of the process rely on.
const UNTOUCHED: [libc::c_int; 5] = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD, libc::SIGCONT, libc::SIGPIPE];
/// Below the C library's own real-time signals.
const LAST_ORDINARY: libc::c_int = 31;
/// The last real-time signal of Linux.
const LAST: libc::c_int = 64;

/// Makes the guest deaf to what its children send.
pub(super) fn deafen() -> io::Result<()> {
    let signals = (1..=LAST_ORDINARY).chain(libc::SIGRTMIN()..=LAST);
    signals.filter(|signal| !UNTOUCHED.contains(signal)).try_for_each(handle)
}

/// Lets a process that is told to end because its host did collect its children first, but not for long.
pub(super) fn linger() -> io::Result<()> {
    handle_by(libc::SIGTERM, end_soon)
}

extern "C" fn end_soon(_signal: libc::c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: may be called by a handler. The action of the signal that follows is the default one: it ends the process.
    unsafe { libc::alarm(1) };
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

fn handle(signal: libc::c_int) -> io::Result<()> {
    handle_by(signal, on_signal)
}

fn handle_by(signal: libc::c_int, handler: Handler) -> io::Result<()> {
    // SAFETY: a `sigaction` of zeroes is valid: no handler, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // One at a time: a storm of handlers on top of each other would overflow the stack.
    // SAFETY: the mask is a valid set of this function's own.
    unsafe { libc::sigfillset(&mut action.sa_mask) };
    // SAFETY: the handler has the signature that `SA_SIGINFO` asks for and only calls what a handler may.
    match unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid pointer to a handler with `SA_SIGINFO`.
    let sent_by_process = unsafe { (*info).si_code } <= 0;
    if FAULTS.contains(&signal) && !sent_by_process {
        // SAFETY: `signal` may be called by a handler. The instruction faults again and now ends the guest.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
