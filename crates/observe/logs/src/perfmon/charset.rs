//! Code page of a header. Windows writes text logs in its ANSI code page and does not name it; typeperf on a console
//! writes in the OEM page. The body of a log is ASCII in all of them.

use encoding_rs::Encoding;

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
    /// Code pages that a header which is not UTF-8 may be written in, likeliest first.
    pub const CANDIDATES: [Charset; 5] = [
        Charset::Known(encoding_rs::WINDOWS_1252),
        Charset::Known(encoding_rs::WINDOWS_1251),
        Charset::Known(encoding_rs::WINDOWS_1250),
        Charset::Known(encoding_rs::IBM866),
        Charset::Cp850,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Charset::Known(encoding) => encoding.name(),
            Charset::Cp850 => "cp850",
        }
    }

    /// Decodes bytes to text; bytes without a character in it become `\u{fffd}`.
    pub fn decode(self, bytes: &[u8]) -> String {
        match self {
            Charset::Known(encoding) => encoding.decode_without_bom_handling(bytes).0.into_owned(),
            Charset::Cp850 => {
                let upper: Vec<char> = CP850.chars().collect();
                let decode_byte = |b: &u8| if *b < 0x80 { char::from(*b) } else { upper[usize::from(*b - 0x80)] };
                bytes.iter().map(decode_byte).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_the_letters_of_the_consoles_page() {
        assert_eq!(CP850.chars().count(), 128);
        // "Gerät: físico, Größe, página" as typeperf prints it
        assert_eq!(Charset::Cp850.decode(b"Ger\x84t f\xa1sico Gr\x94\xe1e p\xa0gina"), "Gerät físico Größe página");
    }
}
