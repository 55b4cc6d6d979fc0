//! In which code page a header is written. Windows writes text logs in its
//! ANSI code page and says nowhere which; typeperf on a console writes in the
//! OEM page. The body of a log is ASCII in all of them.

use std::io::{self, Read};

use encoding_rs::{Decoder, Encoding, UTF_16BE, UTF_16LE};

/// A code page for single bytes, or UTF-8.
#[derive(Clone, Copy, Debug)]
pub(super) enum Charset {
    Known(&'static Encoding),
    /// The console's page in Western Europe, which encoding_rs does not have.
    Cp850,
}

/// Upper half of code page 850.
const CP850: &str = "\
    ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐└┴┬├─┼ãÃ╚╔╩╦╠═╬¤\
    ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u{ad}±‗¾¶§÷¸°¨·¹³²■\u{a0}";

impl Charset {
    /// What a header that is no UTF-8 may be in, likeliest first.
    pub const CANDIDATES: [Charset; 5] = [
        Charset::Known(encoding_rs::WINDOWS_1252),
        Charset::Known(encoding_rs::WINDOWS_1251),
        Charset::Known(encoding_rs::WINDOWS_1250),
        Charset::Known(encoding_rs::IBM866),
        Charset::Cp850,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Charset::Known(encoding) => encoding.name(),
            Charset::Cp850 => "cp850",
        }
    }

    /// Bytes as text; what is no text in it becomes `\u{fffd}`.
    pub fn decode(self, bytes: &[u8]) -> String {
        match self {
            Charset::Known(encoding) => encoding.decode_without_bom_handling(bytes).0.into_owned(),
            Charset::Cp850 => {
                let upper: Vec<char> = CP850.chars().collect();
                let one = |b: &u8| if *b < 0x80 { char::from(*b) } else { upper[usize::from(*b - 0x80)] };
                bytes.iter().map(one).collect()
            }
        }
    }
}

/// The encoding of a whole file in UTF-16, with a byte order mark or without.
pub(super) fn wide(head: &[u8]) -> Option<&'static Encoding> {
    match head {
        [0xff, 0xfe, ..] => Some(UTF_16LE),
        [0xfe, 0xff, ..] => Some(UTF_16BE),
        [b'"' | b'(', 0, b'(' | b'P', 0, ..] => Some(UTF_16LE),
        [0, b'"' | b'(', 0, b'(' | b'P', ..] => Some(UTF_16BE),
        _ => None,
    }
}

/// A stream of UTF-16 as UTF-8, without the mark.
pub(super) struct Utf8Stream<'a> {
    from: &'a mut dyn Read,
    decoder: Decoder,
    wide: Vec<u8>,
    narrow: Vec<u8>,
    given: usize,
    is_last: bool,
}

impl Utf8Stream<'_> {
    pub fn new<'a>(from: &'a mut dyn Read, encoding: &'static Encoding) -> Utf8Stream<'a> {
        let decoder = encoding.new_decoder_with_bom_removal();
        Utf8Stream { from, decoder, wide: vec![0; 64 << 10], narrow: Vec::new(), given: 0, is_last: false }
    }
}

impl Read for Utf8Stream<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.given == self.narrow.len() && !self.is_last {
            let read = self.from.read(&mut self.wide)?;
            self.is_last = read == 0;
            let room = self.decoder.max_utf8_buffer_length(read).unwrap_or(4 * self.wide.len());
            self.narrow.resize(room, 0);
            let (_, _, written, _) = self.decoder.decode_to_utf8(&self.wide[..read], &mut self.narrow, self.is_last);
            self.narrow.truncate(written);
            self.given = 0;
        }
        let count = to.len().min(self.narrow.len() - self.given);
        to[..count].copy_from_slice(&self.narrow[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_consoles_page_has_its_letters() {
        assert_eq!(CP850.chars().count(), 128);
        // "Gerät: físico, Größe, página" as typeperf prints it
        assert_eq!(Charset::Cp850.decode(b"Ger\x84t f\xa1sico Gr\x94\xe1e p\xa0gina"), "Gerät físico Größe página");
    }

    #[test]
    fn utf_16_becomes_utf_8_in_both_orders() {
        let text = "(PDH-CSV 4.0),\"Größe ж 😀\"\n".repeat(9000);
        for big in [false, true] {
            for marked in [false, true] {
                let units = marked.then_some(0xfeff).into_iter().chain(text.encode_utf16());
                let bytes: Vec<u8> = units.flat_map(|u| if big { u.to_be_bytes() } else { u.to_le_bytes() }).collect();
                let encoding = wide(&bytes).unwrap();
                let mut read = String::new();
                Utf8Stream::new(&mut &bytes[..], encoding).read_to_string(&mut read).unwrap();
                assert!(read == text);
            }
        }
        assert!(wide(b"\"(PDH-CSV 4.0)\"").is_none());
    }
}
