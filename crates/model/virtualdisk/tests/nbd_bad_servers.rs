//! Our client against servers that violate the protocol.

use std::io::{Read, Write};

use diskwright_virtualdisk::nbd::client::{ClientError, ClientOptions, ClientRequest, NbdClient, list_exports};
use diskwright_virtualdisk::nbd::wire::{self, CommandFlags, ErrorCode, NbdCommand, answer, chunk, option};

/// A server that sends fixed output and ignores its input.
struct ScriptedServer<'a>(&'a [u8]);

impl Read for ScriptedServer<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(to)
    }
}

impl Write for ScriptedServer<'_> {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        Ok(from.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn greeting() -> Vec<u8> {
    [&wire::NBDMAGIC.to_be_bytes()[..], &wire::IHAVEOPT.to_be_bytes(), &[0, 3]].concat()
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let head = [option, kind, data.len() as u32].map(u32::to_be_bytes);
    [&wire::OPTION_REPLY_MAGIC.to_be_bytes()[..], head.as_flattened(), data].concat()
}

fn export() -> Vec<u8> {
    let size = 65_536_u64.to_be_bytes();
    reply(option::GO, answer::INFO, &[&[0, 0], &size[..], &[0, 1]].concat())
}

fn context(id: u8) -> Vec<u8> {
    let payload = [&[0, 0, 0, id][..], wire::ALLOCATION.as_bytes()].concat();
    reply(option::SET_META_CONTEXT, answer::META_CONTEXT, &payload)
}

/// Returns a complete handshake, with structured replies and context 5 or without both.
fn complete_handshake(structured: bool) -> Vec<u8> {
    let kind = if structured { answer::ACK } else { answer::UNSUPPORTED };
    let mut all = [greeting(), reply(option::STRUCTURED_REPLY, kind, &[])].concat();
    if structured {
        all.extend([context(5), reply(option::SET_META_CONTEXT, answer::ACK, &[])].concat());
    }
    [all, export(), reply(option::GO, answer::ACK, &[])].concat()
}

fn start(bytes: &[u8]) -> Result<NbdClient<ScriptedServer<'_>>, ClientError> {
    NbdClient::start(ScriptedServer(bytes), "x", ClientOptions::default())
}

#[test]
fn rejects_invalid_handshakes() {
    let after = |bytes: Vec<u8>| [greeting(), bytes].concat();
    let plain = || after(reply(option::STRUCTURED_REPLY, answer::POLICY, &[]));
    let go = |kind, data: &[u8]| [plain(), reply(option::GO, kind, data)].concat();
    let sizes = |sizes: [u32; 3]| go(answer::INFO, &[&[0, 3], sizes.map(u32::to_be_bytes).as_flattened()].concat());
    let old = [&wire::NBDMAGIC.to_be_bytes()[..], &[0, 0, 0x42, 2, 0x81, 0x86, 0x12, 0x53], &[0; 136]].concat();
    let mut other = reply(option::GO, answer::ACK, &[]);
    other[0] = 1;
    let mut long = reply(option::STRUCTURED_REPLY, answer::ACK, &[]);
    long[16] = 255;
    let table: [(&str, Vec<u8>, &str); 20] = [
        ("silence", vec![], "closed the connection while a greeting"),
        ("half a greeting", greeting()[..9].to_vec(), "closed the connection while a greeting"),
        ("a shell", b"SSH-2.0-OpenSSH_9.2p1\r\n".to_vec(), "it begins with \"SSH-2.0-\""),
        ("the old style", old, "oldstyle"),
        ("no answer", greeting(), "closed the connection while a reply to an option"),
        ("another magic", after(other), "has the wrong header"),
        ("an answer to something else", after(reply(option::LIST, answer::ACK, &[])), "has the wrong header"),
        ("an answer of 4 GiB", after(long), "has 4278190080 bytes"),
        ("an export, not asked for", after(reply(option::STRUCTURED_REPLY, answer::SERVER, &[])), "neither yes nor no"),
        ("no size", go(answer::ACK, &[]), "without the export's size"),
        ("a size of three bytes", go(answer::INFO, &[0, 0, 1, 2, 3]), "NBD_INFO_EXPORT has the wrong length"),
        ("a size and more", go(answer::INFO, &[0; 13]), "NBD_INFO_EXPORT has the wrong length"),
        ("information about nothing", go(answer::INFO, &[0]), "is not NBD_REP_INFO"),
        ("another kind of answer", go(answer::SERVER, &[0; 12]), "is not NBD_REP_INFO"),
        ("block sizes cut off", go(answer::INFO, &[0, 3, 0, 0]), "NBD_INFO_BLOCK_SIZE has the wrong length"),
        ("a block of 3", sizes([3, 4096, 65_536]), "block sizes of 3"),
        ("a block of 128 KiB", sizes([1 << 17, 1 << 17, 1 << 20]), "block sizes of 131072"),
        ("blocks larger than the largest", sizes([512, 4096, 1024]), "and at most 1024"),
        ("no such export", go(answer::UNKNOWN, &[]), "no such export (error 0x80000006)"),
        ("an error of nobody", go(0xffff_ffff, b"full moon"), "full moon"),
    ];
    for (name, bytes, wanted) in table {
        let message = start(&bytes).map(|_| ()).expect_err(name).to_string();
        assert!(message.contains(wanted), "{name}: {message}");
    }
    // endless replies
    let endless = [greeting(), reply(option::LIST, answer::SERVER, &[0; 4]).repeat(20_000)].concat();
    assert!(list_exports(ScriptedServer(&endless)).expect_err("endless").to_string().contains("more than 10000"));
    let lying = [greeting(), reply(option::LIST, answer::SERVER, &[255; 4])].concat();
    assert!(list_exports(ScriptedServer(&lying)).expect_err("a lie").to_string().contains("is not an export"));
}

#[test]
fn accepts_servers_with_fewer_features() {
    let unsupported = |option| reply(option, answer::UNSUPPORTED, &[]);
    let size = [&65_536_u64.to_be_bytes()[..], &[0, 1]].concat();
    let without_go =
        [greeting(), unsupported(option::STRUCTURED_REPLY), unsupported(option::GO), size.clone()].concat();
    let mut oldest = greeting();
    oldest[17] = 0;
    let oldest = [oldest, size, vec![0; 124]].concat();
    for bytes in [complete_handshake(true), complete_handshake(false), without_go, oldest] {
        let client = start(&bytes).expect("enough");
        assert_eq!((client.export_info().bytes, client.export_info().preferred_block_bytes), (65_536, 4096));
    }
}

/// Cookie of a new client's first request.
const COOKIE: u64 = 1 << 32;

fn simple_reply(error: u32, cookie: u64) -> Vec<u8> {
    [&wire::SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()].concat()
}

fn reply_chunk(flags: u16, kind: u16, data: &[u8]) -> Vec<u8> {
    let head = [flags.to_be_bytes(), kind.to_be_bytes()];
    let length = (data.len() as u32).to_be_bytes();
    let magic = wire::STRUCTURED_REPLY_MAGIC.to_be_bytes();
    [&magic[..], head.as_flattened(), &COOKIE.to_be_bytes(), &length, data].concat()
}

fn data_chunk(flags: u16, offset: u64, bytes: usize) -> Vec<u8> {
    reply_chunk(flags, chunk::OFFSET_DATA, &[&offset.to_be_bytes()[..], &vec![7; bytes]].concat())
}

fn hole_chunk(flags: u16, offset: u64, bytes: u32) -> Vec<u8> {
    reply_chunk(flags, chunk::OFFSET_HOLE, &[&offset.to_be_bytes()[..], &bytes.to_be_bytes()].concat())
}

type CommandOutcome = Result<Vec<u8>, ClientError>;

/// Returns the result of a read of 4096 bytes at 8192, or of another command there.
fn run_command(command: NbdCommand, structured: bool, answer: &[u8]) -> CommandOutcome {
    let bytes = [&complete_handshake(structured), answer].concat();
    let mut client = start(&bytes).expect("agreed");
    let (offset, length) = (8192, 4096);
    let ask = match command {
        NbdCommand::Read => ClientRequest::Read { offset, length },
        command => ClientRequest::Other { command, offset, length },
    };
    let answer = client.send_and_receive(ask, CommandFlags(0)).map(|answer| answer.data.to_vec());
    let broken = matches!(answer, Err(ClientError::ProtocolViolation(_) | ClientError::Closed(_)));
    assert_eq!(broken, matches!(client.send_request(ClientRequest::Flush, CommandFlags(0)), Err(ClientError::Over)));
    answer
}

#[test]
fn rejects_invalid_replies() {
    let read = |answer: &[u8]| run_command(NbdCommand::Read, true, answer);
    let status = |answer: &[u8]| run_command(NbdCommand::BlockStatus, true, answer);
    let cases: [(&str, CommandOutcome, &str); 28] = [
        ("nothing", read(&[]), "closed the connection while a reply"),
        ("half an answer", read(&data_chunk(1, 8192, 4096)[..99]), "while the data of a read"),
        ("another magic", read(&[1; 20]), "begins with 0x01010101"),
        ("to another", read(&simple_reply(5, 1)), "to 0x1, which was not requested"),
        ("to an earlier one", read(&simple_reply(5, 0)), "to 0x0, which was not requested"),
        ("to one far away", read(&simple_reply(5, u64::MAX)), "which was not requested"),
        ("a simple reply", read(&simple_reply(0, COOKIE)), "simple reply to Some(Read)"),
        ("a simple error", read(&simple_reply(5, COOKIE)), "simple reply to Some(Read)"),
        ("chunks, not agreed", run_command(NbdCommand::Read, false, &data_chunk(1, 8192, 4096)), "not negotiated"),
        ("too little", read(&data_chunk(1, 8192, 4095)), "without all of its data"),
        ("nothing, and done", read(&reply_chunk(1, chunk::NONE, &[])), "without all of its data"),
        ("a hole in the middle", read(&[hole_chunk(0, 8192, 9), data_chunk(1, 8202, 4086)].concat()), "without all"),
        ("too much", read(&data_chunk(1, 8192, 4097)), "4097 bytes at 8192, which were not requested"),
        ("too early", read(&data_chunk(1, 8191, 4096)), "at 8191, which were not requested"),
        ("at the end of numbers", read(&hole_chunk(1, u64::MAX, u32::MAX)), "which were not requested"),
        ("twice", read(&[data_chunk(0, 9000, 9), hole_chunk(1, 8192, 4096)].concat()), "at 8192 overlap"),
        ("no bytes", read(&data_chunk(1, 8192, 0)), "a chunk of type 1 has 8 bytes"),
        ("a hole of nothing", read(&hole_chunk(1, 8192, 0)), "0 bytes at 8192"),
        ("nothing with something", read(&reply_chunk(1, chunk::NONE, &[0])), "a chunk of type 0 has 1 bytes"),
        ("nothing, and not the end", read(&reply_chunk(0, chunk::NONE, &[])), "a chunk of type 0 has 0 bytes"),
        ("a chunk of nobody", read(&reply_chunk(1, 99, &[])), "a chunk of type 99"),
        ("an error too short", read(&reply_chunk(1, chunk::ERROR, &[0, 0])), "holds no error"),
        ("an error that is none", read(&reply_chunk(1, chunk::ERROR, &[0; 6])), "holds no error"),
        ("a message too long", read(&reply_chunk(1, chunk::ERROR, &[0, 0, 0, 5, 9, 9])), "holds no error"),
        ("an error of 1 MiB", read(&reply_chunk(1, chunk::ERROR, &vec![0; 1 << 20])), "an error has 1048576 bytes"),
        (
            "status of a read",
            read(&reply_chunk(1, chunk::BLOCK_STATUS, &[0; 12])),
            "block status that was not requested",
        ),
        (
            "another context",
            status(&reply_chunk(1, chunk::BLOCK_STATUS, &[0; 12])),
            "context 0, which was not selected",
        ),
        ("an extent of nothing", status(&reply_chunk(1, chunk::BLOCK_STATUS, &extents(&[0]))), "an extent is empty"),
    ];
    for (name, message, wanted) in cases {
        let message = message.expect_err(name).to_string();
        assert!(message.contains(wanted), "{name}: {message}");
    }
    let nothing = status(&simple_reply(0, COOKIE)).expect_err("no extents").to_string();
    assert!(nothing.contains("simple reply to Some(BlockStatus)"), "{nothing}");
    let without_context = run_command(NbdCommand::BlockStatus, false, &simple_reply(0, COOKIE));
    let message = without_context.expect_err("no extents").to_string();
    assert!(message.contains("a block status is empty"), "{message}");
}

fn extents(lengths: &[u32]) -> Vec<u8> {
    let each = lengths.iter().flat_map(|length| [length.to_be_bytes(), 3_u32.to_be_bytes()].concat());
    5_u32.to_be_bytes().into_iter().chain(each).collect()
}

#[test]
fn assembles_chunks_in_any_order() {
    let mut wanted = vec![7; 4096];
    wanted[1000..2000].fill(0);
    let pieces = [
        data_chunk(0, 11_192, 1096),
        data_chunk(0, 8192, 1000),
        hole_chunk(0, 9192, 1000),
        data_chunk(0, 10_192, 1000),
    ];
    let complete = [pieces.concat(), reply_chunk(1, chunk::NONE, &[])].concat();
    assert!(run_command(NbdCommand::Read, true, &complete).expect("whole") == wanted);
    let mut back = pieces.to_vec();
    back.reverse();
    let complete = [back.concat(), reply_chunk(1, chunk::NONE, &[])].concat();
    assert!(run_command(NbdCommand::Read, true, &complete).expect("whole") == wanted);
}

#[test]
fn reports_the_servers_errors() {
    let message = [&[0, 0, 0, 28, 0, 4][..], b"full"].concat();
    let offset = [&message[..], &9000_u64.to_be_bytes()].concat();
    for (kind, bytes) in [(chunk::ERROR, &message), (chunk::ERROR_OFFSET, &offset), (chunk::ERRORS + 99, &message)] {
        for command in [NbdCommand::Read, NbdCommand::Trim, NbdCommand::BlockStatus] {
            let error = run_command(command, true, &reply_chunk(1, kind, bytes)).expect_err("an error");
            assert!(matches!(error, ClientError::Failed { error: ErrorCode::Nospc, .. }), "{error}");
            assert!(error.to_string().ends_with("of 4096 bytes at 8192: no space left (ENOSPC): full"), "{error}");
        }
    }
    for (code, wanted) in [(5, ErrorCode::Io), (108, ErrorCode::Shutdown), (4711, ErrorCode::Inval)] {
        let error = run_command(NbdCommand::Read, false, &simple_reply(code, COOKIE)).expect_err("an error");
        assert!(matches!(error, ClientError::Failed { error, .. } if error == wanted), "{error}");
    }
}

#[test]
fn a_duplicate_reply_does_not_match_the_next_request() {
    let bytes = [complete_handshake(false), simple_reply(0, COOKIE), simple_reply(0, COOKIE)].concat();
    let mut client = start(&bytes).expect("agreed");
    client.flush().expect("answered");
    assert!(matches!(client.flush(), Err(ClientError::ProtocolViolation(_))));
}
