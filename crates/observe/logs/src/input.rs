//! A file, or standard input, ready to be read: opened, unpacked if it is compressed, its beginning available for
//! recognition.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::LogError;
use crate::input_limits::{self, BoundedUnpacker};
use crate::pcp::files;
use crate::plain_text;
use crate::text_encoding;
use crate::xz::XzUnpacker;

/// Largest beginning of an input that formats are recognized by, bytes.
pub const MAX_HEAD_BYTES: usize = 64 << 10;

/// The beginning of an input.
pub struct InputHead<'a> {
    /// File name without its folder; `-` is standard input.
    pub name: &'a str,
    /// At most [`MAX_HEAD_BYTES`] bytes, unpacked; less if the file is shorter.
    pub bytes: &'a [u8],
}

impl InputHead<'_> {
    /// Iterates over its lines as text, without terminal codes.
    pub fn text_lines(&self) -> impl Iterator<Item = Cow<'_, str>> {
        plain_text::head_lines(self.bytes, self.bytes.len() == MAX_HEAD_BYTES)
    }
}

/// An input, read as an unpacked stream from its beginning.
pub struct LogInput {
    name: String,
    path: Option<PathBuf>,
    head: Vec<u8>,
    stream: Box<dyn Read>,
    size_bytes: Option<u64>,
    consumed_bytes: Arc<AtomicU64>,
    cut: Arc<CutState>,
}

/// State of a packed file's end.
#[derive(Default)]
struct CutState {
    /// If set, the file ends before the damage without an error.
    is_tolerated: AtomicBool,
    because: Mutex<Option<String>>,
}

/// A packed stream that keeps its error: a log that was cut while it was copied is read up to there.
struct CutReader<R> {
    inner: R,
    state: Arc<CutState>,
}

impl<R: Read> Read for CutReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut because = self.state.because.lock().unwrap_or_else(PoisonError::into_inner);
        if because.is_none() {
            match self.inner.read(buffer) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    *because = Some(format!("the compressed file is truncated or damaged ({error})"));
                }
                read => return read,
            }
        }
        match &*because {
            Some(because) if !self.state.is_tolerated.load(Ordering::Relaxed) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, because.clone()))
            }
            _ => Ok(0),
        }
    }
}

/// Counts the bytes read from the file itself, for progress.
struct CountingReader<R> {
    inner: R,
    consumed_bytes: Arc<AtomicU64>,
    /// Set at the end: a terminal would wait for another one.
    is_ended: bool,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_ended {
            return Ok(0);
        }
        let read = self.inner.read(buffer)?;
        self.is_ended = read == 0 && !buffer.is_empty();
        self.consumed_bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl LogInput {
    /// Opens a file; `-` is standard input. gzip, bzip2, zstd and xz are unpacked on the way,
    /// and UTF-16 becomes UTF-8.
    /// The base name of a PCP archive, which is not a file, stands for its `.meta`.
    ///
    /// # Errors
    /// When the file cannot be opened, or a compressed file is broken at its beginning.
    pub fn open(path: &Path) -> Result<LogInput, LogError> {
        LogInput::open_named(path, &path.display().to_string())
    }

    /// Opens a file that was unpacked from an archive, with the name that errors give it.
    ///
    /// # Errors
    /// As [`LogInput::open`].
    pub fn open_named(path: &Path, name: &str) -> Result<LogInput, LogError> {
        let name = name.to_owned();
        let error = |e| LogError::io(&name, e);
        let consumed = Arc::new(AtomicU64::new(0));
        if path == Path::new("-") {
            let raw = CountingReader { inner: io::stdin(), consumed_bytes: Arc::clone(&consumed), is_ended: false };
            return LogInput::from_stream(name, None, Box::new(raw), None, consumed);
        }
        let base_meta = if path.exists() { None } else { files::meta_of_base(path) };
        let path = base_meta.as_deref().unwrap_or(path);
        let file = File::open(path).map_err(error)?;
        let metadata = file.metadata().map_err(error)?;
        if metadata.is_dir() {
            return Err(error(io::Error::new(io::ErrorKind::IsADirectory, "a folder, but not a Diskwright log")));
        }
        let raw = CountingReader {
            inner: input_limits::without_holes(file),
            consumed_bytes: Arc::clone(&consumed),
            is_ended: false,
        };
        LogInput::from_stream(
            name,
            Some(path.to_owned()),
            Box::new(raw),
            metadata.is_file().then_some(metadata.len()),
            consumed,
        )
    }

    /// Makes an input of bytes in memory, for tests and fuzzing. It has no path.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<LogInput, LogError> {
        let length = bytes.len() as u64;
        let consumed = Arc::default();
        let raw = CountingReader { inner: Cursor::new(bytes), consumed_bytes: Arc::clone(&consumed), is_ended: false };
        LogInput::from_stream(name.to_owned(), None, Box::new(raw), Some(length), consumed)
    }

    fn from_stream(
        name: String,
        path: Option<PathBuf>,
        raw: Box<dyn Read>,
        bytes: Option<u64>,
        consumed: Arc<AtomicU64>,
    ) -> Result<LogInput, LogError> {
        let error = |e| LogError::io(&name, e);
        let cut = Arc::<CutState>::default();
        let mut stream = unpack_stream(raw, &consumed, &cut).map_err(error)?;
        let head = match read_beginning(&mut stream, MAX_HEAD_BYTES) {
            (head, Some(e)) if head.is_empty() => return Err(error(e)),
            // a reader that continues gets the error again
            (head, _) => head,
        };
        let stream: Box<dyn Read> = Box::new(Cursor::new(head.clone()).chain(stream));
        let mut input = LogInput { stream, name, path, head, size_bytes: bytes, consumed_bytes: consumed, cut };
        if let Some(form) = text_encoding::detect_form(&input.head) {
            input.insert_filter(|stream| form.to_plain_stream(stream)).map_err(|e| LogError::io(&input.name, e))?;
        }
        Ok(input)
    }

    /// Inserts a filter between the stream and its readers; the beginning is then that of the filtered stream.
    pub(crate) fn insert_filter(&mut self, filter: impl FnOnce(Box<dyn Read>) -> Box<dyn Read>) -> io::Result<()> {
        let mut filtered = filter(std::mem::replace(&mut self.stream, Box::new(io::empty())));
        self.head = match read_beginning(&mut filtered, MAX_HEAD_BYTES) {
            (head, Some(error)) if head.is_empty() => return Err(error),
            (head, _) => head,
        };
        self.stream = Box::new(Cursor::new(self.head.clone()).chain(filtered));
        Ok(())
    }

    /// Returns all bytes, unpacked, if they are at most so many; the input is still read from its beginning afterwards.
    pub fn peek_all(&mut self, max_bytes: usize) -> Option<Vec<u8>> {
        let (bytes, error) = read_beginning(&mut self.stream, max_bytes.saturating_add(1));
        let rest = std::mem::replace(&mut self.stream, Box::new(io::empty()));
        self.stream = Box::new(Cursor::new(bytes.clone()).chain(rest));
        (error.is_none() && bytes.len() <= max_bytes).then_some(bytes)
    }

    /// Opens several files (path and name) as one input, each opened only when the one before has ended, each behind
    /// the text that `preface` makes of it.
    ///
    /// # Errors
    /// When the first cannot be read; an error in a later one ends the reading there.
    pub fn open_joined(
        files: Vec<(PathBuf, String)>,
        preface: impl Fn(&LogInput) -> String + 'static,
    ) -> Result<LogInput, LogError> {
        let name = match files.as_slice() {
            [(_, name)] => name.clone(),
            [] => "- and 0 more".to_owned(),
            [(_, first), others @ ..] => format!("{first} and {} more", others.len()),
        };
        let bytes = files.iter().map(|(path, _)| path.metadata().ok().map(|found| found.len())).sum();
        let stream = JoinedFiles { remaining: files.into_iter(), current: Box::new(io::empty()), preface };
        LogInput::from_stream(name, None, Box::new(stream), bytes, Arc::default())
    }

    /// Makes a packed file that is cut or damaged end there without an error; [`LogInput::cut_reason`] returns the
    /// reason.
    pub(crate) fn tolerate_cut(&self) {
        self.cut.is_tolerated.store(true, Ordering::Relaxed);
    }

    /// Returns why a packed file ended early, once that point was read.
    pub(crate) fn cut_reason(&self) -> Option<String> {
        self.cut.because.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Name for errors: the path as given, or `-`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path of the file, for formats of several files; `None` for standard input.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Its beginning.
    pub fn head(&self) -> InputHead<'_> {
        let name = self.path.as_deref().and_then(Path::file_name).and_then(|n| n.to_str()).unwrap_or(&self.name);
        InputHead { name, bytes: &self.head }
    }

    /// Size of the file on disk (packed), bytes; `None` if it has none.
    pub fn size_bytes(&self) -> Option<u64> {
        self.size_bytes
    }

    /// Counter of the bytes of the file that were read so far, packed; it advances while the input is read.
    pub fn consumed_bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.consumed_bytes)
    }

    /// Returns an error at a place of this input.
    pub fn error_at(&self, context: impl Into<String>, because: impl Into<String>) -> LogError {
        LogError::broken(&self.name, context, because)
    }
}

impl Read for LogInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

/// Files that are opened one after another, so that a thousand of them are not open at once.
struct JoinedFiles<F> {
    remaining: std::vec::IntoIter<(PathBuf, String)>,
    current: Box<dyn Read>,
    preface: F,
}

impl<F: Fn(&LogInput) -> String> Read for JoinedFiles<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.current.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let Some((path, name)) = self.remaining.next() else { return Ok(0) };
            let input = LogInput::open_named(&path, &name).map_err(io::Error::other)?;
            let text = Cursor::new((self.preface)(&input).into_bytes());
            self.current = Box::new(text.chain(input));
        }
    }
}

/// Reads up to `max_bytes` bytes; fewer only at the end, or before an error.
fn read_beginning(stream: &mut dyn Read, max_bytes: usize) -> (Vec<u8>, Option<io::Error>) {
    let mut head = Vec::new();
    let read = stream.take(max_bytes as u64).read_to_end(&mut head);
    (head, read.err())
}

/// Returns the stream unpacked from gzip, bzip2, zstd or xz; any other stream is unchanged.
fn unpack_stream(mut raw: Box<dyn Read>, consumed: &Arc<AtomicU64>, cut: &Arc<CutState>) -> io::Result<Box<dyn Read>> {
    let magic = match read_beginning(&mut raw, 6) {
        (_, Some(error)) => return Err(error),
        (magic, None) => magic,
    };
    let complete = Cursor::new(magic.clone()).chain(raw);
    let inner: Box<dyn Read> = match magic.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(complete)),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41] => Box::new(bzip2::read::MultiBzDecoder::new(complete)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::stream::read::Decoder::new(complete)?),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Box::new(XzUnpacker::new(complete)),
        _ => return Ok(Box::new(complete)),
    };
    let inner = CutReader { inner, state: Arc::clone(cut) };
    Ok(Box::new(BoundedUnpacker { inner, packed_bytes: Arc::clone(consumed), unpacked_bytes: 0 }))
}

/// Returns true for the beginning of a tar archive: a header block whose checksum is right, the sum of its bytes with
/// blanks in the checksum's place. Its files may be logs; the archive itself is not one.
pub fn is_tar(head: &[u8]) -> bool {
    const CHECKSUM_RANGE: std::ops::Range<usize> = 148..156;
    let Some(block) = head.get(..512) else { return false };
    let digits = block[CHECKSUM_RANGE].split(|b| !b.is_ascii_digit()).find(|digits| !digits.is_empty());
    let stored_sum = digits.and_then(|digits| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
    let sum: u32 = block
        .iter()
        .enumerate()
        .map(|(index, b)| u32::from(if CHECKSUM_RANGE.contains(&index) { b' ' } else { *b }))
        .sum();
    block[0] != 0 && stored_sum == Some(sum)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn reads_packed_files_as_if_unpacked() {
        let text = "some, text\n".repeat(20_000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(text.as_bytes()).unwrap();
        let bzip2 = bzip2.finish().unwrap();
        // two packed files in a row are one, as `cat` makes them
        let halves = [bzip2.clone(), bzip2.clone()].concat();
        let twice = LogInput::from_bytes("x", halves).unwrap();
        assert_eq!(io::read_to_string(twice).unwrap().len(), 2 * text.len());
        let packed =
            [bzip2, gzip.finish().unwrap(), zstd::encode_all(text.as_bytes(), 1).unwrap(), text.clone().into_bytes()];
        for bytes in packed {
            let mut input = LogInput::from_bytes("x", bytes).unwrap();
            assert_eq!(input.head().bytes, &text.as_bytes()[..MAX_HEAD_BYTES]);
            let mut read = String::new();
            input.read_to_string(&mut read).unwrap();
            assert!(read == text);
        }
    }

    #[test]
    fn a_broken_archive_is_an_error() {
        assert!(LogInput::from_bytes("x", vec![0x1f, 0x8b, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]).is_err());
        assert!(LogInput::from_bytes("x", b"BZh91AY&SY and then something else".to_vec()).is_err());
        let short = LogInput::from_bytes("x", vec![0x1f]).unwrap();
        assert_eq!(short.head().bytes, [0x1f]);
    }

    #[test]
    fn a_tar_archive_is_known_by_its_header() {
        let mut block = [0u8; 512];
        block[..5].copy_from_slice(b"a.txt");
        block[100..107].copy_from_slice(b"0000644");
        block[124..135].copy_from_slice(b"00000000003");
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
        block[154] = 0;
        assert!(is_tar(&block));
        assert!(!is_tar(&block[..511]) && !is_tar(&[0; 512]) && !is_tar(&[b' '; 512]) && !is_tar(&[b'0'; 512]));
        block[0] ^= 1;
        assert!(!is_tar(&block));
    }

    /// Reads what precedes a cut, and reports that the file is incomplete.
    #[test]
    fn a_cut_file_is_read_up_to_there() {
        let mut text = String::new();
        (0..100_000).for_each(|line| text += &format!("{} some, text\n", line * 7919 % 100_003));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let mut bzip = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip.write_all(text.as_bytes()).unwrap();
        let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
        // in one chunk, as all that `xz` packs up to two megabytes
        let xz = include_bytes!("../tests/packed/lines.xz").to_vec();
        let short: String = (0..3000).map(|line| format!("{} some, text\n", line * 7919 % 100_003)).collect();
        let (gzip, bzip) = (gzip.finish().unwrap(), bzip.finish().unwrap());
        for (compressed, text) in [(gzip, &text), (bzip, &text), (zstd, &text), (xz, &short)] {
            let cut = compressed[..compressed.len() * 6 / 10].to_vec();
            let mut strict = LogInput::from_bytes("x", cut.clone()).unwrap();
            assert!(strict.read_to_string(&mut String::new()).is_err());
            let mut input = LogInput::from_bytes("x", cut).unwrap();
            input.tolerate_cut();
            let mut read = String::new();
            input.read_to_string(&mut read).unwrap();
            assert!(read.len() > text.len() / 3 && text.starts_with(&read), "{} of {}", read.len(), text.len());
            assert!(input.cut_reason().is_some());
        }
    }
}
