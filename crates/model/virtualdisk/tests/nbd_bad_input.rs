//! Replies to a client that violates the protocol.

use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use crate::nbd_server::Served;
use diskwright_virtualdisk::nbd::ProtocolError;
use diskwright_virtualdisk::nbd::handshake::{Handshake, HandshakeState, NbdExport, NbdSession};
use diskwright_virtualdisk::nbd::request::{self, NbdRequest, RequestCheck, RequestParse};
use diskwright_virtualdisk::nbd::wire::{self, CommandFlags, ErrorCode, NbdCommand, TransmissionFlags, answer, option};

/// A client with a fixed input, and the output that it receives.
struct Script<'a> {
    input: &'a [u8],
    /// Number of bytes that arrive together.
    piece: usize,
    output: Vec<u8>,
}

impl Read for Script<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.piece.min(to.len());
        self.input.read(&mut to[..bytes])
    }
}

impl Write for Script<'_> {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        self.output.extend_from_slice(from);
        Ok(from.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn served() -> Arc<Served> {
    // shared by all tests, which change only its first bytes, one of them those from 9000 on
    static SERVED: OnceLock<Arc<Served>> = OnceLock::new();
    Arc::clone(SERVED.get_or_init(make_server))
}

fn make_server() -> Arc<Served> {
    let mut sealed = NbdExport::new("sealed", 1 << 16);
    sealed.flags = sealed.flags.with(TransmissionFlags::READ_ONLY);
    sealed.block_status = false;
    let mut small = NbdExport::new("small", 1 << 20);
    small.max_request_bytes = 65_536;
    Served::new(vec![small, sealed])
}

/// Returns the server's whole output for `input`, and the error that ends it.
fn server_output(input: &[u8], piece: usize) -> (Vec<u8>, Option<ProtocolError>) {
    let mut script = Script { input, piece, output: Vec::new() };
    let ended = served().serve(&mut script).expect("a script has no errors");
    (script.output, ended)
}

fn encode_option(number: u32, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u32).to_be_bytes();
    [&wire::IHAVEOPT.to_be_bytes()[..], &number.to_be_bytes(), &length, data].concat()
}

fn encode_string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn encode_go(number: u32, name: &str) -> Vec<u8> {
    encode_option(number, &[encode_string(name), vec![0, 1, 0, 3]].concat())
}

fn encode_contexts(number: u32, queries: &[&str]) -> Vec<u8> {
    let queries = queries.iter().map(|query| encode_string(query)).collect::<Vec<_>>();
    encode_option(
        number,
        &[encode_string("small"), (queries.len() as u32).to_be_bytes().to_vec(), queries.concat()].concat(),
    )
}

/// Decodes option and kind of each reply.
fn decode_option_replies(mut output: &[u8]) -> Vec<(u32, u32)> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four"));
    let mut found = Vec::new();
    while output.starts_with(&wire::OPTION_REPLY_MAGIC.to_be_bytes()) {
        found.push((number(&output[8..12]), number(&output[12..16])));
        output = &output[20 + number(&output[16..20]) as usize..];
    }
    found
}

const GREETING: usize = 18;
const CLIENT: [u8; 4] = [0, 0, 0, 3];

#[test]
fn refused_options_do_not_end_the_connection() {
    let structured = encode_option(option::STRUCTURED_REPLY, &[]);
    let with = |before: &[u8], option: Vec<u8>| [before.to_vec(), option].concat();
    let table: [(&str, Vec<u8>, u32); 22] = [
        ("one of 70,000 bytes", encode_option(77, &[0; 70_000]), answer::TOO_BIG),
        ("GO with a name of 70,000", encode_go(option::GO, &"x".repeat(70_000)), answer::TOO_BIG),
        ("GO with a name of 5,000", encode_go(option::GO, &"x".repeat(5_000)), answer::UNKNOWN),
        ("GO for what is not there", encode_go(option::GO, "other"), answer::UNKNOWN),
        ("INFO for what is not there", encode_go(option::INFO, "smal"), answer::UNKNOWN),
        ("a name that is no text", encode_option(option::GO, &[0, 0, 0, 2, 0xff, 0, 0, 0]), answer::UNKNOWN),
        ("GO without data", encode_option(option::GO, &[]), answer::INVALID),
        ("GO whose name is longer than it", encode_option(option::GO, &[0, 0, 0, 9, b'a', 0, 0]), answer::INVALID),
        ("GO whose name is 4 GiB", encode_option(option::GO, &[255, 255, 255, 255, b'a', 0, 0]), answer::INVALID),
        (
            "GO that wants more than it says",
            encode_option(option::GO, &[0, 0, 0, 0, 0, 1, 0, 3, 0, 1]),
            answer::INVALID,
        ),
        ("GO that says more than it wants", encode_option(option::GO, &[0, 0, 0, 0, 255, 255, 0, 3]), answer::INVALID),
        ("LIST with data", encode_option(option::LIST, b"x"), answer::INVALID),
        ("STRUCTURED_REPLY with data", encode_option(option::STRUCTURED_REPLY, b"x"), answer::INVALID),
        ("STARTTLS", encode_option(option::STARTTLS, &[]), answer::POLICY),
        ("STARTTLS with data", encode_option(option::STARTTLS, b"x"), answer::INVALID),
        ("PEEK_EXPORT, withdrawn", encode_option(4, &[]), answer::UNSUPPORTED),
        ("EXTENDED_HEADERS", encode_option(option::EXTENDED_HEADERS, &[]), answer::UNSUPPORTED),
        ("a number of nobody", encode_option(0xdead_beef, b"whatever"), answer::UNSUPPORTED),
        ("a context too early", encode_contexts(option::SET_META_CONTEXT, &[wire::ALLOCATION]), answer::INVALID),
        ("a list of contexts too early", encode_contexts(option::LIST_META_CONTEXT, &[]), answer::INVALID),
        (
            "queries that are not there",
            with(&structured, encode_option(option::SET_META_CONTEXT, &[0, 0, 0, 0, 255, 255, 255, 255])),
            answer::INVALID,
        ),
        (
            "a query longer than the option",
            with(&structured, encode_option(option::SET_META_CONTEXT, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, b'x'])),
            answer::INVALID,
        ),
    ];
    for (name, input, wanted) in table {
        let input_bytes = [CLIENT.to_vec(), input, encode_option(option::ABORT, b"ignored")].concat();
        let (output, ended) = server_output(&input_bytes, 1 << 20);
        let found = decode_option_replies(&output[GREETING..]);
        let [.., (_, refused), last] = found[..] else { panic!("{name}: {found:?}") };
        assert_eq!((refused, last), (wanted, (option::ABORT, answer::ACK)), "{name}");
        assert_eq!(ended, Some(ProtocolError::Aborted), "{name}");
        assert_eq!(
            server_output(&input_bytes, if input_bytes.len() > 4096 { 997 } else { 1 }).0,
            output,
            "{name}, in pieces"
        );
    }
}

#[test]
fn unanswerable_input_closes_the_connection() {
    let magic = |found| ProtocolError::OptionMagic { found };
    let unknown = |name: &str| ProtocolError::UnknownExport(name.to_owned());
    let named = |name: &[u8]| [&CLIENT[..], &encode_option(option::EXPORT_NAME, name)].concat();
    let old = [&CLIENT[..], &[0; 8]].concat();
    let table: [(&str, Vec<u8>, ProtocolError); 7] = [
        ("a browser", b"GET / HTTP/1.1\r\n\r\n".to_vec(), ProtocolError::ClientFlags(0x4745_5420)),
        ("flags of a later protocol", vec![0, 0, 0, 7], ProtocolError::ClientFlags(7)),
        ("no option", old, magic(0)),
        ("half a wrong magic", [&CLIENT[..], b"IHAVENO"].concat(), magic(0x0049_4841_5645_4e4f)),
        ("an export that is not there", named(b"other"), unknown("other")),
        ("a name of 70,000 bytes", named(&[b'x'; 70_000]), unknown("a name of 70000 bytes")),
        (
            "a request before an export",
            [&CLIENT[..], &encode_header(0, 0, 0, 512)].concat(),
            magic(0x2560_9513_0000_0000),
        ),
    ];
    for (name, input, wanted) in table {
        let (output, ended) = server_output(&input, 1 << 20);
        assert_eq!((output.len(), ended), (GREETING, Some(wanted.clone())), "{name}");
        if !matches!(wanted, ProtocolError::OptionMagic { .. }) {
            assert_eq!(
                server_output(&input, if input.len() > 4096 { 997 } else { 1 }).1,
                Some(wanted),
                "{name}, in pieces"
            );
        }
    }
}

#[test]
fn selects_contexts_as_the_protocol_specifies() {
    let cases: [(u32, &[&str], usize); 8] = [
        (option::LIST_META_CONTEXT, &[], 1),
        (option::LIST_META_CONTEXT, &["base:"], 1),
        (option::LIST_META_CONTEXT, &["qemu:", "nothing"], 0),
        (option::SET_META_CONTEXT, &[], 0),
        (option::SET_META_CONTEXT, &["base:"], 0),
        (option::SET_META_CONTEXT, &["base:allocation", "base:allocation"], 1),
        (option::SET_META_CONTEXT, &["x-own:thing", "base:allocation"], 1),
        (option::SET_META_CONTEXT, &["base:allocations"], 0),
    ];
    for (export, queries, wanted) in cases {
        let input =
            [&CLIENT[..], &encode_option(option::STRUCTURED_REPLY, &[]), &encode_contexts(export, queries)].concat();
        let (output, ended) = server_output(&input, 1 << 20);
        let found = decode_option_replies(&output[GREETING..]);
        assert_eq!(found[1..].len(), wanted + 1, "{queries:?}: {found:?}");
        assert_eq!((found.last(), ended), (Some(&(export, answer::ACK)), None), "{queries:?}");
    }
}

#[test]
fn an_old_client_gets_zero_padding() {
    for (flags, zeroes) in [(0, 124), (1, 124), (2, 0), (3, 0)] {
        let input = [&[0, 0, 0, flags][..], &encode_option(option::EXPORT_NAME, b"")].concat();
        let (output, ended) = server_output(&input, 1 << 20);
        assert_eq!((output.len(), ended), (GREETING + 10 + zeroes, None));
        assert_eq!(output[GREETING..GREETING + 8], (1_u64 << 20).to_be_bytes());
    }
}

#[test]
fn limits_replies_to_a_client_that_does_not_read() {
    let served = served();
    let mut output = Vec::new();
    let mut handshake = Handshake::start(&mut output);
    let lists = [CLIENT.to_vec(), encode_option(option::LIST, &[]).repeat(100_000)].concat();
    let progress = handshake.process_input(&served.exports, &lists, &mut output);
    assert!(output.len() < 300_000 && progress.consumed < lists.len() && progress.state == HandshakeState::More);
    // it continues once the output is sent
    output.clear();
    let more = handshake.process_input(&served.exports, &lists[progress.consumed..], &mut output);
    assert!(more.consumed > 10_000 && more.state == HandshakeState::More);
}

fn encode_header(command: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let (command, flags) = (NbdCommand::from_code(command), CommandFlags(flags));
    NbdRequest { flags, command, cookie: 0x1234_5678_9abc_def0, offset, length }.encode_header().to_vec()
}

/// Decodes the error codes of the replies after the handshake, 0 for success, for replies without
/// data.
fn decode_error_codes(mut output: &[u8]) -> Vec<u32> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four"));
    let mut found = Vec::new();
    while output.len() >= 16 {
        let simple = number(&output[..4]) == wire::SIMPLE_REPLY_MAGIC;
        let cookie = if simple { &output[8..16] } else { &output[8..][..8] };
        assert_eq!(cookie, 0x1234_5678_9abc_def0_u64.to_be_bytes());
        let error = number(if simple { &output[4..8] } else { &output[20..24] });
        let kind = u16::from_be_bytes([output[6], output[7]]);
        found.push(if simple || kind & wire::chunk::ERRORS != 0 { error } else { 0 });
        output = &output[if simple { 16 } else { 20 + number(&output[16..20]) as usize }..];
    }
    assert!(output.is_empty());
    found
}

/// Returns the handshake for an export, and the length of the server's reply to it.
fn completed_handshake(export: &str, structured: bool) -> (Vec<u8>, usize) {
    let before = if structured { encode_option(option::STRUCTURED_REPLY, &[]) } else { Vec::new() };
    let input = [CLIENT.to_vec(), before, encode_go(option::GO, export)].concat();
    let answered = server_output(&input, 1 << 20).0.len();
    (input, answered)
}

const END: u64 = 1 << 20;

/// Requests to the export `small`, whose largest request is 64 KiB, with the error without and with
/// structured replies.
const REQUESTS: &[(&str, u16, u16, u64, u32, ErrorCode, ErrorCode)] = {
    use ErrorCode::{Inval, Nospc, Overflow};
    &[
        ("a read beyond the end", 0, 0, END, 512, Inval, Inval),
        ("a read over the end", 0, 0, END - 1, 2, Inval, Inval),
        ("a read at the end of numbers", 0, 0, u64::MAX, 512, Inval, Inval),
        ("a read of nothing", 0, 0, 0, 0, Inval, Inval),
        ("a read too long", 0, 0, 0, 65_537, Inval, Overflow),
        ("a read of 4 GiB", 0, 0, 0, u32::MAX, Inval, Inval),
        ("a read in one piece", 0, 4, END, 512, Inval, Inval),
        ("a read with NO_HOLE", 0, 2, 0, 512, Inval, Inval),
        ("a read with what nobody knows", 0, 1 << 15, 0, 512, Inval, Inval),
        ("a write over the end", 1, 0, END - 1, 2, Nospc, Nospc),
        ("a write at the end of numbers", 1, 1, u64::MAX, 512, Nospc, Nospc),
        ("a write too long", 1, 0, 0, 65_537, Inval, Inval),
        ("a write of nothing", 1, 0, 0, 0, Inval, Inval),
        ("a write in one piece", 1, 4, 0, 512, Inval, Inval),
        ("a flush of a place", 3, 0, 512, 0, Inval, Inval),
        ("a flush of a length", 3, 0, 0, 512, Inval, Inval),
        ("a trim over the end", 4, 0, END - 1, 2, Inval, Inval),
        ("a trim of 4 GiB", 4, 0, 0, u32::MAX, Inval, Inval),
        ("a cache over the end", 5, 0, END - 1, 2, Inval, Inval),
        ("zeroes over the end", 6, 0, END - 1, 2, Nospc, Nospc),
        ("fast zeroes, not offered", 6, 16, 0, 512, Inval, Inval),
        ("block status, not chosen", 7, 0, 0, 512, Inval, Inval),
        ("a resize", 8, 0, 0, 512, Inval, Inval),
        ("a command of nobody", 9, 0, 0, 512, Inval, Inval),
        ("a command of 65535", u16::MAX, u16::MAX, u64::MAX, u32::MAX, Inval, Inval),
    ]
};

#[test]
fn refused_requests_do_not_end_the_connection() {
    for structured in [false, true] {
        let (before, answered) = completed_handshake("small", structured);
        for &(name, command, flags, offset, length, simple, chunked) in REQUESTS {
            let payload = if command == 1 { vec![7; length as usize] } else { Vec::new() };
            let flush = encode_header(3, 0, 0, 0);
            let input = [&before[..], &encode_header(command, flags, offset, length), &payload, &flush].concat();
            let (output, ended) = server_output(&input, 1 << 20);
            let wanted = if structured { chunked } else { simple };
            assert_eq!(decode_error_codes(&output[answered..]), [wanted.code(), 0], "{name}, structured {structured}");
            assert_eq!(ended, None, "{name}");
            assert_eq!(server_output(&input, if length > 4096 { 4999 } else { 5 }).0, output, "{name}, in pieces");
        }
    }
}

#[test]
fn accepts_the_df_flag_only_with_structured_replies() {
    for (structured, wanted) in [(false, ErrorCode::Inval.code()), (true, 0)] {
        let (before, answered) = completed_handshake("small", structured);
        let (output, _) = server_output(&[before, encode_header(0, 4, 0, 512)].concat(), 1 << 20);
        assert_eq!(decode_error_codes(&output[answered..]), [wanted]);
    }
}

#[test]
fn refuses_changes_to_a_read_only_export() {
    let (before, answered) = completed_handshake("sealed", true);
    let tried = [
        encode_header(1, 0, 0, 4),
        vec![1; 4],
        encode_header(4, 0, 0, 4),
        encode_header(6, 0, 0, 4),
        encode_header(3, 0, 0, 0),
    ]
    .concat();
    let (output, ended) = server_output(&[before, tried].concat(), 1 << 20);
    assert_eq!((decode_error_codes(&output[answered..]), ended), (vec![1, 1, 1, 0], None));
}

#[test]
fn invalid_requests_end_the_connection() {
    let (before, answered) = completed_handshake("small", true);
    let magic = |found| Some(ProtocolError::RequestMagic { found });
    let table = [
        ("no request", b"GET /".to_vec(), magic(0x4745_5420)),
        ("an option after GO", encode_option(option::LIST, &[]), magic(0x4948_4156)),
        ("the magic of an extended request", vec![0x21, 0xe4, 0x1c, 0x71], magic(0x21e4_1c71)),
        (
            "a write whose data is 4 GiB",
            encode_header(1, 0, 0, u32::MAX),
            Some(ProtocolError::Flood { length: u32::MAX, max_bytes: request::MAX_SKIPPED_BYTES }),
        ),
        ("a disconnect, whatever it says", encode_header(2, 9, 9, 9), None),
    ];
    for (name, input, wanted) in table {
        let behind = encode_header(3, 0, 0, 0);
        let (output, ended) = server_output(&[&before[..], &input, &behind].concat(), 1 << 20);
        assert_eq!((output.len(), ended), (answered, wanted), "{name}");
    }
    // wrong lengths: bytes that look like data are the next request, and vice versa
    let short = [before.clone(), encode_header(1, 0, 0, 4), encode_header(3, 0, 0, 0)].concat();
    let (output, ended) = server_output(&short, 1 << 20);
    assert_eq!((decode_error_codes(&output[answered..]), ended), (vec![0], magic(3)));
    let long = [before, encode_header(1, 0, 0, 100), vec![1; 50]].concat();
    assert_eq!(server_output(&long, 1 << 20).0.len(), answered);
}

#[test]
fn waits_for_the_rest_of_incomplete_input() {
    let (before, _) = completed_handshake("small", true);
    let requests = [
        encode_header(1, 1, 9008, 4),
        vec![1; 4],
        encode_header(0, 4, 9000, 16),
        encode_header(4, 0, 9000, 4),
        encode_header(2, 0, 0, 0),
    ]
    .concat();
    let complete = [encode_contexts(option::LIST_META_CONTEXT, &["base:"]), encode_go(option::INFO, "sealed")].concat();
    let complete = [&before[..4], &complete, &before[4..], &requests].concat();
    let (output, ended) = server_output(&complete, 1 << 20);
    assert_eq!(ended, None);
    for end in 0..complete.len() {
        let (part, ended) = server_output(&complete[..end], 1 << 20);
        assert!(output.starts_with(&part) && ended.is_none(), "cut at {end}: {ended:?}");
    }
    assert_eq!(server_output(&complete, 1).0, output);
}

#[test]
fn enforces_alignment_where_required() {
    let mut export = NbdExport::new("big blocks", 1 << 20);
    export.min_block_bytes = 4096;
    let session = NbdSession { export: 0, structured: true, block_status: true };
    let inval = |offset, length, command| {
        let request = NbdRequest { flags: CommandFlags(0), command, cookie: 1, offset, length };
        matches!(request::check_request(&request, &export, &session), RequestCheck::Refuse(ErrorCode::Inval, _))
    };
    for command in
        [NbdCommand::Read, NbdCommand::Write, NbdCommand::Trim, NbdCommand::WriteZeroes, NbdCommand::BlockStatus]
    {
        assert!(inval(512, 4096, command) && inval(0, 512, command) && !inval(4096, 8192, command));
    }
}

#[test]
fn an_incomplete_header_reports_the_missing_bytes() {
    let header = encode_header(0, 0, 0, 512);
    for end in 0..28 {
        assert_eq!(request::parse(&header[..end]), RequestParse::Need(28 - end));
    }
    assert!(matches!(request::parse(&header), RequestParse::Request(NbdRequest { length: 512, .. })));
}
