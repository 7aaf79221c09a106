//! Taking everything there is.
//!
//! Each flood stops by itself at an amount far above what any sandbox may have, so that a missing wall is noticed and
//! the machine survives.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use super::{Act, Outcome, errno, of_io};

pub(super) const ACTS: &[(&str, Act)] = &[
    ("fork_bomb", fork_bomb),
    ("thread_bomb", thread_bomb),
    ("memory_at_once", memory_at_once),
    ("memory_in_many", memory_in_many),
    ("memory_in_files", memory_in_files),
    ("memory_in_segments", memory_in_segments),
    ("memory_in_sockets", memory_in_sockets),
    ("fill_tmp", || fill("/tmp")),
    ("fill_home", || fill("/home/choir")),
    ("fill_shared", || fill("/dev/shm")),
    ("fill_work", || fill("/work")),
    ("fill_work_unlinked", fill_work_unlinked),
    ("names_tmp", || many_files("/tmp")),
    ("names_home", || many_files("/home/choir")),
    ("names_work", || many_files("/work")),
    ("sparse", sparse),
    ("descriptors_all", descriptors_all),
    ("terminals", terminals),
    ("talk", talk),
    ("spin", spin),
    ("deep", deep),
];

/// What no sandbox of the suite may have: processes, bytes, names, descriptors.
const PROCESSES_BEYOND: usize = 2000;
const BYTES_BEYOND: u64 = 3 << 28;
const NAMES_BEYOND: u64 = 30_000;
const DESCRIPTORS_BEYOND: usize = 3_000;
const PIECE: usize = 1 << 20;

fn fork_bomb() -> Outcome {
    let mut made = 0;
    while made < PROCESSES_BEYOND {
        // SAFETY: this process has one thread, and the child only waits.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            },
            ..0 => return Outcome::Refused(errno()),
            _ => made += 1,
        }
    }
    Outcome::Done(format!("{made} processes"))
}

fn thread_bomb() -> Outcome {
    let mut made = 0;
    while made < PROCESSES_BEYOND {
        let thread = std::thread::Builder::new().stack_size(16 << 10).spawn(|| {
            loop {
                std::thread::park();
            }
        });
        match thread {
            Ok(_) => made += 1,
            Err(error) => return Outcome::Refused(error.raw_os_error().unwrap_or(-1)),
        }
    }
    Outcome::Done(format!("{made} threads"))
}

fn memory_at_once() -> Outcome {
    hold(BYTES_BEYOND)
}

/// Takes memory and touches every page of it.
fn hold(bytes: u64) -> Outcome {
    let mut held = Vec::new();
    while (held.len() as u64) < bytes / PIECE as u64 {
        let mut piece: Vec<u8> = Vec::new();
        if piece.try_reserve_exact(PIECE).is_err() {
            return Outcome::Refused(libc::ENOMEM);
        }
        piece.resize(PIECE, 1);
        held.push(std::hint::black_box(piece));
    }
    Outcome::Done(format!("{} bytes", held.len() * PIECE))
}

/// No process takes much alone.
fn memory_in_many() -> Outcome {
    const EACH: u64 = 64 << 20;
    let processes = BYTES_BEYOND / EACH;
    for _ in 0..processes {
        // SAFETY: this process has one thread, and the child only takes memory and waits.
        match unsafe { libc::fork() } {
            0 => {
                let _held = std::hint::black_box(hold_on(EACH));
                loop {
                    // SAFETY: waits for a signal.
                    unsafe { libc::pause() };
                }
            }
            ..0 => return Outcome::Refused(errno()),
            _ => {}
        }
    }
    // Children take their time; the last to be done is waited for by taking as much here.
    let _held = std::hint::black_box(hold_on(EACH));
    wait_for_children_or(processes);
    Outcome::Done(format!("{processes} processes with {EACH} bytes each"))
}

fn hold_on(bytes: u64) -> Vec<u8> {
    vec![1; usize::try_from(bytes).unwrap_or(usize::MAX)]
}

/// Waits until a child ends, which none does by itself, or a while has passed.
fn wait_for_children_or(processes: u64) {
    for _ in 0..processes {
        // SAFETY: waits for no descriptor, only for the time.
        unsafe { libc::poll(std::ptr::null_mut(), 0, 100) };
    }
}

/// Memory that belongs to files without names, which no process has mapped.
fn memory_in_files() -> Outcome {
    use std::os::fd::FromRawFd;
    let piece = vec![1; PIECE];
    const FILES: u64 = 32;
    let mut files = Vec::new();
    for _ in 0..FILES {
        // SAFETY: the name ends with a NUL byte.
        let descriptor = unsafe { libc::memfd_create(c"flood".as_ptr(), 0) };
        if descriptor < 0 {
            return Outcome::Refused(errno());
        }
        // SAFETY: the descriptor is new and this function's own.
        let mut file = unsafe { File::from_raw_fd(descriptor) };
        for _ in 0..BYTES_BEYOND / FILES / PIECE as u64 {
            if let Err(error) = file.write_all(&piece) {
                return Outcome::Refused(error.raw_os_error().unwrap_or(-1));
            }
        }
        files.push(file);
    }
    wait_for_children_or(10);
    Outcome::Done(format!("{BYTES_BEYOND} bytes in {} files without names", files.len()))
}

/// Memory in segments that outlive whoever made them.
fn memory_in_segments() -> Outcome {
    const EACH: usize = 256 << 20;
    for _ in 0..BYTES_BEYOND / EACH as u64 {
        // SAFETY: makes a segment, and writes only within it.
        unsafe {
            let segment = libc::shmget(libc::IPC_PRIVATE, EACH, libc::IPC_CREAT | 0o600);
            if segment < 0 {
                return Outcome::Refused(errno());
            }
            let memory = libc::shmat(segment, std::ptr::null(), 0);
            if memory as isize == -1 {
                return Outcome::Refused(errno());
            }
            std::ptr::write_bytes(memory.cast::<u8>(), 1, EACH);
            libc::shmdt(memory);
        }
    }
    wait_for_children_or(10);
    Outcome::Done(format!("{BYTES_BEYOND} bytes in segments"))
}

/// Memory of the kernel, which waits in sockets to be read. No process has many, and each wishes for more room than one has
/// by itself.
fn memory_in_sockets() -> Outcome {
    const HELD: u64 = 512 << 20;
    const PAIRS_EACH: usize = 100;
    const PROCESSES: u64 = 24;
    const WISH_BYTES: libc::c_int = 1 << 20;
    for _ in 0..PROCESSES {
        // SAFETY: this process has one thread, and the child only fills sockets and waits.
        match unsafe { libc::fork() } {
            0 => {
                let _held = std::hint::black_box(full_sockets(PAIRS_EACH, HELD / PROCESSES, WISH_BYTES));
                loop {
                    // SAFETY: waits for a signal.
                    unsafe { libc::pause() };
                }
            }
            ..0 => return Outcome::Refused(errno()),
            _ => {}
        }
    }
    wait_for_children_or(PROCESSES);
    Outcome::Done(format!("{HELD} bytes in sockets"))
}

/// Pairs of sockets that hold so many bytes together, or as many as fit.
fn full_sockets(pairs: usize, bytes: u64, wish: libc::c_int) -> Vec<(UnixStream, UnixStream)> {
    let (piece, mut left, mut held) = (vec![1; 16 << 10], bytes, Vec::new());
    while held.len() < pairs && left > 0 {
        let Ok((mut one, mut other)) = UnixStream::pair() else { break };
        for socket in [&mut one, &mut other] {
            let (length, value) = (size_of_val(&wish) as libc::socklen_t, (&raw const wish).cast());
            // SAFETY: the value is there and as long as is said.
            unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, value, length) };
            socket.set_nonblocking(true).ok();
            while left > 0
                && let Ok(written) = socket.write(&piece)
            {
                left = left.saturating_sub(written as u64);
            }
        }
        held.push((one, other));
    }
    held
}

fn fill(directory: &str) -> Outcome {
    let piece = vec![1; PIECE];
    for number in 0..BYTES_BEYOND / (64 << 20) {
        let mut file = match File::create(format!("{directory}/fill-{number}")) {
            Ok(file) => file,
            Err(error) => return of_io(Err::<(), _>(error), ""),
        };
        for _ in 0..64 {
            if let Err(error) = file.write_all(&piece) {
                return of_io(Err::<(), _>(error), "");
            }
        }
    }
    // Whoever measures may need a moment to notice.
    wait_for_children_or(15);
    Outcome::Done(format!("{BYTES_BEYOND} bytes in {directory}"))
}

/// Files that lose their names before they are filled.
fn fill_work_unlinked() -> Outcome {
    let piece = vec![1; PIECE];
    let mut held = Vec::new();
    for number in 0..BYTES_BEYOND / (64 << 20) {
        let path = format!("/work/unlinked-{number}");
        let mut file = match File::create(&path).and_then(|file| fs::remove_file(&path).map(|()| file)) {
            Ok(file) => file,
            Err(error) => return of_io(Err::<(), _>(error), ""),
        };
        for _ in 0..64 {
            if let Err(error) = file.write_all(&piece) {
                return of_io(Err::<(), _>(error), "");
            }
        }
        held.push(file);
    }
    wait_for_children_or(15);
    Outcome::Done(format!("{BYTES_BEYOND} bytes in {} files that lost their names", held.len()))
}

fn many_files(directory: &str) -> Outcome {
    for number in 0..NAMES_BEYOND {
        if number % 1000 == 0
            && let Err(error) = fs::create_dir(format!("{directory}/many-{}", number / 1000))
        {
            return of_io(Err::<(), _>(error), "");
        }
        if let Err(error) = File::create(format!("{directory}/many-{}/{number}", number / 1000)) {
            return of_io(Err::<(), _>(error), "");
        }
    }
    wait_for_children_or(15);
    Outcome::Done(format!("{NAMES_BEYOND} names in {directory}"))
}

fn sparse() -> Outcome {
    const HUGE: u64 = 1 << 30;
    let file = match File::create("/work/sparse") {
        Ok(file) => file,
        Err(error) => return of_io(Err::<(), _>(error), ""),
    };
    // The kernel may answer with a signal as well.
    // SAFETY: only changes what this process does with that signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    of_io(file.set_len(HUGE), "a file beyond every limit")
}

fn descriptors_all() -> Outcome {
    let mut held = Vec::new();
    while held.len() < DESCRIPTORS_BEYOND {
        match File::open("/dev/null") {
            Ok(file) => held.push(file),
            Err(error) => return of_io(Err::<(), _>(error), ""),
        }
    }
    Outcome::Done(format!("{} descriptors", held.len()))
}

fn terminals() -> Outcome {
    const TERMINALS_BEYOND: usize = 100_000;
    for _ in 0..TERMINALS_BEYOND {
        // SAFETY: makes a terminal of this process's own, kept open.
        if unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) } < 0 {
            return Outcome::Refused(errno());
        }
    }
    Outcome::Done(format!("{TERMINALS_BEYOND} terminals"))
}

/// Talks without end; the outside ends it, and its log has a bound.
fn talk() -> Outcome {
    let piece = vec![b'x'; PIECE];
    loop {
        if let Err(error) = std::io::stdout().write_all(&piece) {
            return of_io(Err::<(), _>(error), "");
        }
    }
}

fn spin() -> Outcome {
    for _ in 0..8 {
        // SAFETY: this process has one thread, and the child only computes.
        if unsafe { libc::fork() } == 0 {
            loop {
                std::hint::spin_loop();
            }
        }
    }
    loop {
        std::hint::spin_loop();
    }
}

/// Directories within directories, longer than any path.
fn deep() -> Outcome {
    const DEEP: usize = 3000;
    for _ in 0..DEEP {
        let made = fs::create_dir("d").and_then(|()| std::env::set_current_dir("d"));
        if let Err(error) = made {
            return of_io(Err::<(), _>(error), "");
        }
    }
    Outcome::Done(format!("{DEEP} directories deep"))
}
