//! A disk that remembers everything that was done to it: mounted for a real load, then cut off at any moment.
//!
//! [`mount`] serves an [`image::Image`] in memory over FUSE and records what reaches it; [`crash`] says what a power cut may leave.

pub(crate) mod crash;
pub(crate) mod image;
pub(crate) mod mount;
pub mod served;

/// The file that is not one: what a load writes to it is an acknowledgement, recorded in order with everything else.
pub(crate) const ACKNOWLEDGEMENTS: &str = "acknowledgements";

/// A file or directory, whatever it is called.
pub(crate) type Node = u64;

/// The directory that everything is in.
pub(crate) const ROOT: Node = 1;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) directory: Node,
    pub(crate) name: String,
}

/// Something done to the disk.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// A file or directory came to be.
    Make { place: Place, node: Node, content: image::Content },
    /// Bytes were written.
    Write { node: Node, offset: usize, bytes: Vec<u8> },
    /// A file was cut or lengthened.
    Resize { node: Node, size: usize },
    /// A name was moved; whatever had the new name lost it.
    Rename { from: Place, to: Place, node: Node },
    /// A name was removed.
    Remove { place: Place },
    /// Everything done so far to a file, or to the names in a directory, shall survive.
    Sync { node: Node },
    /// The load said that something is safe.
    Acknowledge(String),
}
