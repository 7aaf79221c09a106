//! Putting files in their places: whole, durably, and only over what is expected there.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::files::{c_string, fault, on, unfinished_name};
use crate::protocol::{Fault, FaultCode};

/// What has to be in a place for it to be taken by something else.
pub(super) enum Expected<'a> {
    /// Whatever is no directory.
    Anything,
    Nothing,
    /// What this recognises, under the name that it has at that moment.
    Known(&'a dyn Fn(&OwnedFd, &CStr) -> bool),
}

impl Expected<'_> {
    /// Gives what has a temporary name its place. What was there is looked at once it is out of everybody's way: whoever looks
    /// before may look too early. If it is something else it is put back.
    pub(super) fn replace(&self, parent: &OwnedFd, temporary: &CStr, name: &CStr) -> Result<(), Errno> {
        let rename = |flags| rustix::fs::renameat_with(parent, temporary, parent, name, flags);
        match self {
            Self::Anything => rename(RenameFlags::empty()),
            Self::Nothing => rename(RenameFlags::NOREPLACE),
            Self::Known(is_it) => match rename(RenameFlags::EXCHANGE) {
                Ok(()) if is_it(parent, temporary) => rustix::fs::unlinkat(parent, temporary, AtFlags::empty()),
                Ok(()) => rename(RenameFlags::EXCHANGE).and(Err(Errno::EXIST)),
                // Not every file system can do that; then it is looked at before after all.
                Err(Errno::INVAL) if is_it(parent, name) => rename(RenameFlags::empty()),
                Err(Errno::INVAL) => Err(Errno::EXIST),
                Err(errno) => Err(errno),
            },
        }
    }

    /// Removes a name in the same way.
    pub(super) fn remove(&self, parent: &OwnedFd, aside: &CStr, name: &CStr) -> Result<(), Errno> {
        let Self::Known(is_it) = self else { return rustix::fs::unlinkat(parent, name, AtFlags::empty()) };
        rustix::fs::renameat_with(parent, name, parent, aside, RenameFlags::NOREPLACE)?;
        if is_it(parent, aside) {
            return rustix::fs::unlinkat(parent, aside, AtFlags::empty());
        }
        rustix::fs::renameat_with(parent, aside, parent, name, RenameFlags::NOREPLACE).and(Err(Errno::EXIST))
    }
}

/// A file being replaced: its content grows under another name and takes the place as a whole.
#[derive(Debug)]
pub(super) struct Writing {
    parent: OwnedFd,
    name: CString,
    file: OwnedFd,
    /// The other name, for as long as it exists.
    temporary: Option<CString>,
    mode: Mode,
    missing: u64,
}

impl Writing {
    pub(super) fn begin(parent: OwnedFd, name: CString, mode: Mode, size: u64) -> Result<Self, Fault> {
        let temporary = c_string(OsStr::new(&unfinished_name()))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, &temporary, flags, Mode::from_raw_mode(0o600));
        let file = file.map_err(on("write the file"))?;
        Ok(Self { parent, name, file, temporary: Some(temporary), mode, missing: size })
    }

    /// How many bytes have still to come.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// Adds the next bytes.
    pub(super) fn append(mut self, bytes: &[u8]) -> Result<Self, Fault> {
        self.missing = self
            .missing
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| Fault::new(FaultCode::BadRequest, "the content is longer than announced"))?;
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::write(&self.file, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(fault("write the file", Some(errno.raw_os_error()))),
            }
        }
        Ok(self)
    }

    /// Puts the file in its place, durably.
    pub(super) fn finish(self) -> Result<(), Fault> {
        self.finish_over(&Expected::Anything)
    }

    /// The same, if what is there is what is expected.
    pub(super) fn finish_over(mut self, expected: &Expected<'_>) -> Result<(), Fault> {
        let act = "write the file";
        rustix::fs::fchmod(&self.file, self.mode).map_err(on(act))?;
        rustix::fs::fsync(&self.file).map_err(on(act))?;
        let Some(temporary) = &self.temporary else { return Ok(()) };
        expected.replace(&self.parent, temporary, &self.name).map_err(on(act))?;
        self.temporary = None;
        rustix::fs::fsync(&self.parent).map_err(on(act))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The write has failed already and has said so.
            rustix::fs::unlinkat(&self.parent, temporary, AtFlags::empty()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::guest::files::Files;
    use crate::path::{LinkTarget, RelativePath};

    /// Somebody may write in the moment between a look and a rename.
    #[test]
    fn a_place_is_taken_from_nothing_but_what_is_expected_there() {
        let place = tempfile::tempdir().expect("a directory");
        let files = Files::new(fs::File::open(place.path()).expect("opened").into());
        let path = RelativePath::parse("file").expect("a path");
        let target = LinkTarget::parse("elsewhere").expect("a target");
        let write = |expected: &Expected<'_>| files.begin_write(&path, None, 3)?.append(b"new")?.finish_over(expected);
        let link = |expected: &Expected<'_>| files.put_link(&path, &target, expected);
        let remove = |expected: &Expected<'_>| files.remove_expected(&path, expected);
        let is = |says: bool| move |_: &OwnedFd, _: &CStr| says;
        for expected in [Expected::Known(&is(false)), Expected::Nothing] {
            fs::write(place.path().join("file"), "of a person").expect("written");
            let mut acts = vec![write(&expected), link(&expected)];
            if matches!(expected, Expected::Known(_)) {
                acts.push(remove(&expected));
            }
            assert!(acts.into_iter().all(|act| act.is_err_and(|fault| fault.code == FaultCode::Exists)));
            assert_eq!(fs::read_to_string(place.path().join("file")).expect("there"), "of a person");
        }
        write(&Expected::Known(&is(true))).expect("it was expected");
        assert_eq!(fs::read_to_string(place.path().join("file")).expect("there"), "new");
        link(&Expected::Known(&is(true))).expect("it was expected");
        assert_eq!(fs::read_link(place.path().join("file")).expect("a link"), std::path::Path::new("elsewhere"));
        remove(&Expected::Known(&is(true))).expect("it was expected");
        assert_eq!(fs::read_dir(place.path()).expect("listed").count(), 0, "nothing unfinished is left");
    }
}
