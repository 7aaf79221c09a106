//! A whole content in git's binary form: zlib data in base 85, at most 52 bytes a line.
//!
//! Not compressed: a difference is read once and seldom holds binary files. What comes out has a length that is known
//! beforehand, and is made as it is read, so that a content of any size needs no more room than a block of it.

use std::io::{self, Read};

/// Bytes of data in a line.
const LINE_BYTES: usize = 52;
/// Bytes of content in a block of data.
const BLOCK_BYTES: usize = u16::MAX as usize;
/// What stands before each block.
const BLOCK_HEAD_BYTES: u64 = 5;
/// What stands before all blocks and after them: the kind of data, and its sum.
const ENDS_BYTES: u64 = 2 + 4;
/// Letters of so many bytes.
const WORD_BYTES: u64 = 4;
const WORD_LETTERS: u64 = 5;

/// How many bytes [`Literal`] makes of a content of this size.
pub(super) fn literal_bytes(size: u64) -> u64 {
    let blocks = size.div_ceil(BLOCK_BYTES as u64).max(1);
    let data = ENDS_BYTES + blocks * BLOCK_HEAD_BYTES + size;
    let line = LINE_BYTES as u64;
    // A line has a letter for its length and an end; the last may be shorter.
    let whole = (data / line) * (line / WORD_BYTES * WORD_LETTERS + 2);
    let rest = match data % line {
        0 => 0,
        rest => rest.div_ceil(WORD_BYTES) * WORD_LETTERS + 2,
    };
    head(size).len() as u64 + whole + rest + 1
}

fn head(size: u64) -> String {
    format!("literal {size}\n")
}

/// Writes a content.
pub(super) struct Literal<R> {
    /// What is said before the data.
    head: Option<String>,
    data: Data<R>,
    ended: bool,
}

impl<R: Read> Literal<R> {
    /// Of a content of exactly this size.
    pub(super) fn new(content: R, size: u64) -> Self {
        Self { head: Some(head(size)), data: Data::new(content, size), ended: false }
    }

    /// Appends the next lines until there are so many bytes. Answers whether there is more.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, until_bytes: usize) -> io::Result<bool> {
        if let Some(head) = self.head.take() {
            out.extend_from_slice(head.as_bytes());
        }
        let mut line = [0; LINE_BYTES];
        while !self.ended && out.len() < until_bytes {
            match self.data.read(&mut line)? {
                0 => {
                    out.push(b'\n');
                    self.ended = true;
                }
                length => write_line(out, &line[..length]),
            }
        }
        Ok(!self.ended)
    }
}

fn write_line(out: &mut Vec<u8>, line: &[u8]) {
    let letter = if line.len() <= 26 { b'A' - 1 } else { b'a' - 27 };
    // At most 52, so it stays a letter.
    out.push(letter + line.len() as u8);
    line.chunks(WORD_BYTES as usize).for_each(|word| write_base85(out, word));
    out.push(b'\n');
}

fn write_base85(out: &mut Vec<u8>, word: &[u8]) {
    const DIGITS: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
    let mut padded = [0; 4];
    padded[..word.len()].copy_from_slice(word);
    let mut value = u32::from_be_bytes(padded);
    let mut digits = [0; 5];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(value % 85) as usize];
        value /= 85;
    }
    out.extend_from_slice(&digits);
}

/// Zlib data of stored blocks.
struct Data<R> {
    content: R,
    /// Bytes of the content that were not read yet.
    left: u64,
    sum: Adler,
    /// Data that is made and not taken, and how much of it was.
    made: Vec<u8>,
    taken: usize,
    /// Whether the last of it is made.
    complete: bool,
}

impl<R: Read> Data<R> {
    fn new(content: R, size: u64) -> Self {
        Self { content, left: size, sum: Adler::default(), made: vec![0x78, 0x01], taken: 0, complete: false }
    }

    /// Fills `out` as far as there is data.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut length = 0;
        while length < out.len() {
            if self.taken == self.made.len() {
                if self.complete {
                    break;
                }
                self.make()?;
            }
            let ready = &self.made[self.taken..];
            let part = ready.len().min(out.len() - length);
            out[length..length + part].copy_from_slice(&ready[..part]);
            length += part;
            self.taken += part;
        }
        Ok(length)
    }

    /// Makes the next block. A content without bytes is one block as well.
    fn make(&mut self) -> io::Result<()> {
        let mut block = [0; BLOCK_BYTES];
        let length = self.left.min(BLOCK_BYTES as u64) as usize;
        self.content.read_exact(&mut block[..length])?;
        self.left -= length as u64;
        self.complete = self.left == 0;
        self.sum.add(&block[..length]);
        self.taken = 0;
        self.made.clear();
        self.made.push(u8::from(self.complete));
        self.made.extend_from_slice(&(length as u16).to_le_bytes());
        self.made.extend_from_slice(&(!(length as u16)).to_le_bytes());
        self.made.extend_from_slice(&block[..length]);
        if self.complete {
            self.made.extend_from_slice(&self.sum.value().to_be_bytes());
        }
        Ok(())
    }
}

/// The sum at the end of zlib data.
struct Adler {
    a: u32,
    b: u32,
}

impl Default for Adler {
    fn default() -> Self {
        Self { a: 1, b: 0 }
    }
}

impl Adler {
    fn add(&mut self, content: &[u8]) {
        const MODULUS: u32 = 65_521;
        // So many bytes can be added before the sums overflow.
        const RUN: usize = 5_552;
        for run in content.chunks(RUN) {
            for byte in run {
                self.a += u32::from(*byte);
                self.b += self.a;
            }
            self.a %= MODULUS;
            self.b %= MODULUS;
        }
    }

    fn value(&self) -> u32 {
        self.b << 16 | self.a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_known_before_it_is_written_and_parts_make_the_whole() {
        let block = BLOCK_BYTES as u64;
        for size in [0, 1, 2, 37, 41, 42, 43, 44, 45, 100, block - 1, block, block + 1, 3 * block, 1_000_003] {
            let content: Vec<u8> = (0..size).map(|at| (at * 31 % 251) as u8).collect();
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            assert!(!Literal::new(&content[..], size).write(&mut whole, usize::MAX).expect("writes"));
            assert_eq!(whole.len() as u64, literal_bytes(size), "{size}");
            let mut literal = Literal::new(&content[..], size);
            let mut part = Vec::new();
            while literal.write(&mut part, 1000).expect("writes") {
                assert!(part.len() < 1100, "{}", part.len());
                parts.append(&mut part);
            }
            parts.append(&mut part);
            assert_eq!(parts, whole, "{size}");
        }
    }

    #[test]
    fn a_content_that_is_shorter_than_said_is_an_error() {
        assert!(Literal::new(&b"abc"[..], 4).write(&mut Vec::new(), usize::MAX).is_err());
    }
}
