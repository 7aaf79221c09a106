//! Searches for what the outside has hidden.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Act, Outcome};

pub(super) const ACTS: &[(&str, Act)] = &[("search_files", search_files), ("search_memory", search_memory)];

/// What every planted secret begins with, written so that this program does not itself contain it.
fn mark() -> Vec<u8> {
    b"@gngpl\"q`m|n-qgapgv/".iter().map(|byte| byte ^ 2).collect()
}

/// The mark for the outside, which plants it.
pub(in crate::attack) fn secret(random: &str) -> String {
    format!("{}{random}", String::from_utf8_lossy(&mark()))
}

/// Where everything but the system's own programs lies. Those are the same for everybody.
const PLACES: [&str; 9] = ["/work", "/home", "/tmp", "/run", "/etc", "/var", "/dev/shm", "/proc/self", "/proc/1"];
/// Most files looked at, and most of each.
const FILES_MAX: usize = 50_000;
const FILE_BYTES_MAX: u64 = 64 << 20;
const PIECE_BYTES: usize = 1 << 20;

fn search_files() -> Outcome {
    let (mut left, mut bytes, mut found) = (FILES_MAX, 0, 0);
    for place in PLACES {
        search(Path::new(place), &mut left, &mut |content| {
            bytes += content.len() as u64;
            found += count(content);
        });
    }
    for variable in std::env::vars_os() {
        let text = format!("{variable:?}");
        bytes += text.len() as u64;
        found += count(text.as_bytes());
    }
    Outcome::Scanned { bytes, found }
}

fn search(path: &Path, left: &mut usize, look: &mut impl FnMut(&[u8])) {
    let Ok(kind) = fs::symlink_metadata(path) else { return };
    if *left == 0 || kind.is_symlink() {
        return;
    }
    *left -= 1;
    look(path.as_os_str().as_encoded_bytes());
    if kind.is_dir() {
        // A directory of /proc holds itself again and again.
        if path.starts_with("/proc") && path.components().count() > 4 {
            return;
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            search(&entry.path(), left, look);
        }
    } else if kind.is_file() && !is_endless(path) {
        look_into(path, look);
    }
}

/// Files of the kernel that answer by waiting, and memory, which has its own search.
fn is_endless(path: &Path) -> bool {
    path.starts_with("/proc")
        && path.file_name().is_some_and(|name| name == "mem" || name == "kmsg" || name == "pagemap")
}

fn look_into(path: &Path, look: &mut impl FnMut(&[u8])) {
    let Ok(file) = File::open(path) else { return };
    let mut content = Vec::new();
    // What can be read before an error is looked at all the same.
    file.take(FILE_BYTES_MAX).read_to_end(&mut content).ok();
    look(&content);
}

/// The memory of every process that is seen, this one left out: it holds the mark itself.
fn search_memory() -> Outcome {
    let own = std::process::id();
    let (mut bytes, mut found) = (0, 0);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| *pid != own) {
        for name in ["environ", "cmdline", "auxv", "status", "maps"] {
            look_into(Path::new(&format!("/proc/{pid}/{name}")), &mut |content| {
                bytes += content.len() as u64;
                found += count(content);
            });
        }
        search_process(pid, &mut |content| {
            bytes += content.len() as u64;
            found += count(content);
        });
    }
    Outcome::Scanned { bytes, found }
}

fn search_process(pid: u32, look: &mut impl FnMut(&[u8])) {
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else { return };
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut piece = vec![0; PIECE_BYTES];
    for line in maps.lines() {
        let Some((from, to)) = line.split(' ').next().and_then(|range| range.split_once('-')) else { continue };
        let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16)) else { continue };
        let mut at = from;
        while at < to.min(from + FILE_BYTES_MAX) {
            let Ok(read @ 1..) = memory.read_at(&mut piece, at) else { break };
            look(&piece[..read]);
            at += read as u64;
        }
    }
}

fn count(content: &[u8]) -> u64 {
    let mark = mark();
    content.windows(mark.len()).filter(|window| *window == mark).count() as u64
}
