//! A disk that another process serves. Whoever uses a file system must not be the one who serves it: killed in the middle,
//! it would wait for itself for ever.

use super::crash::Cut;
use super::image::Image;
use super::mount::{Fault, Mounted, Temper};
use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;

/// What to serve.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// What is on the disk at first; nothing without it.
    #[arg(long)]
    pub image: Option<PathBuf>,
}

/// What a served disk can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// One of the next steps fails.
    Eio { after: u64 },
    /// There is no space, for so many attempts.
    Full { attempts: u64 },
    /// Nothing can be changed, for so many attempts.
    ReadOnly { attempts: u64 },
    /// It is good again.
    Mend,
    /// What a power cut at this moment may leave goes into a directory.
    Cut { seed: u64, into: PathBuf },
    /// What no power cut may leave does.
    Forget { seed: u64, into: PathBuf },
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Eio { after } => write!(f, "eio {after}"),
            Self::Full { attempts } => write!(f, "full {attempts}"),
            Self::ReadOnly { attempts } => write!(f, "read-only {attempts}"),
            Self::Mend => write!(f, "mend"),
            Self::Cut { seed, into } => write!(f, "cut {seed} {}", into.display()),
            Self::Forget { seed, into } => write!(f, "forget {seed} {}", into.display()),
        }
    }
}

impl FromStr for Order {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let mut words = line.splitn(3, ' ');
        let word = words.next().unwrap_or_default();
        let mut number = || words.next().context("a number")?.parse::<u64>().context("a number");
        Ok(match word {
            "eio" => Self::Eio { after: number()? },
            "full" => Self::Full { attempts: number()? },
            "read-only" => Self::ReadOnly { attempts: number()? },
            "mend" => Self::Mend,
            "cut" => Self::Cut { seed: number()?, into: words.next().context("a directory")?.into() },
            "forget" => Self::Forget { seed: number()?, into: words.next().context("a directory")?.into() },
            _ => anyhow::bail!("a disk was told {line:?}"),
        })
    }
}

/// Serves until nobody gives orders any more. Each order is answered by a line.
pub fn serve(options: &Options) -> anyhow::Result<()> {
    let image = options.image.as_deref().map_or_else(|| Ok(Image::default()), Image::read_from)?;
    let disk = Mounted::new(image, Temper::Sound)?;
    let mut answers = std::io::stdout();
    writeln!(answers, "{}", disk.path().display())?;
    for line in std::io::stdin().lock().lines() {
        obey(&disk, line?.parse()?)?;
        writeln!(answers, "done")?;
    }
    disk.finish().map(drop)
}

fn obey(disk: &Mounted, order: Order) -> anyhow::Result<()> {
    match order {
        Order::Eio { after } => disk.fail(|steps| Fault::Eio { at: steps + after }),
        Order::Full { attempts } => disk.fail(|at| Fault::Full { at, attempts }),
        Order::ReadOnly { attempts } => disk.fail(|at| Fault::ReadOnly { at, attempts }),
        Order::Mend => disk.mend(),
        Order::Cut { seed, into } => {
            let mut random = fastrand::Rng::with_seed(seed);
            let cut = Cut::ALL[random.usize(..Cut::ALL.len())];
            disk.cut(cut, &mut random).write_to(&into)?;
        }
        Order::Forget { seed, into } => disk.forget(&mut fastrand::Rng::with_seed(seed)).write_to(&into)?,
    }
    Ok(())
}

/// A disk, as whoever uses it has it. It ends with its owner.
pub(crate) struct Served {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    at: PathBuf,
}

impl Served {
    /// A disk with what lies in a directory, or an empty one.
    pub(crate) fn start(image: Option<&Path>) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("disk").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(image) = image {
            command.arg("--image").arg(image);
        }
        let mut child = command.spawn()?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("standard output was asked for")?);
        let mut served = Self { child, orders, answers, at: PathBuf::new() };
        served.at = served.answer()?.into();
        Ok(served)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    pub(crate) fn tell(&mut self, order: &Order) -> anyhow::Result<()> {
        let orders = self.orders.as_mut().context("orders are given until the end")?;
        writeln!(orders, "{order}")?;
        self.answer().map(drop)
    }

    fn answer(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the disk broke");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.orders.take());
        // Nothing is left to be done about a child that cannot be waited for.
        self.child.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_understood_as_they_were_given() {
        let into = PathBuf::from("/a b");
        let orders = [
            Order::Eio { after: 1 },
            Order::Full { attempts: 2 },
            Order::ReadOnly { attempts: 3 },
            Order::Mend,
            Order::Cut { seed: 4, into: into.clone() },
            Order::Forget { seed: 5, into },
        ];
        for order in orders {
            assert_eq!(order.to_string().parse::<Order>().unwrap(), order);
        }
    }
}
