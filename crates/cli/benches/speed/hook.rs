//! What one hook costs the agent that waits for it, beside a process that does nothing.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    process::{Command, Stdio},
    thread,
};

use crate::rounds::{Row, time};

const NOTHING: &str = "/bin/true";
/// A payload of the usual size.
const PAYLOAD_BYTES: usize = 2000;

/// Times a hook with a listener that answers at once, and one without any, over an empty process, in turns.
pub(crate) fn cost(program: &Path, rounds: usize) -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (up, down, payload) =
        (folder.path().join("up"), folder.path().join("down"), folder.path().join("payload.json"));
    fs::create_dir(&up).expect("a folder for the listener");
    let filler = "x".repeat(PAYLOAD_BYTES);
    fs::write(&payload, format!("{{\"hook_event_name\":\"PreToolUse\",\"tool_input\":\"{filler}\"}}"))
        .expect("a payload");
    listen(UnixListener::bind(up.join("hub.sock")).expect("a socket"));
    let run = |program: &Path, data: &Path| {
        let mut command = Command::new(program);
        let stdin = File::open(&payload).expect("the payload is there");
        command.arg("hook").env_clear().env("SUBSCOPE_DATA_DIR", data);
        command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null());
        let took = time(&mut || {
            let status = command.status().expect("the program starts");
            assert!(status.success(), "{} failed", program.display());
        });
        took.as_secs_f64() * 1000.0
    };
    let nothing = Path::new(NOTHING);
    let (mut delivered, mut spooled, mut same) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds + 10 {
        let (first, with, second, without) =
            (run(nothing, &down), run(program, &up), run(nothing, &down), run(program, &down));
        // The first few find cold caches.
        if round >= 10 {
            delivered.push(with - first);
            spooled.push(without - second);
            same.push(second - first);
        }
    }
    let row = |figure: &str, values, budget| Row {
        question: "`hook`, what an agent waits for".to_owned(),
        figure: format!("{figure} − `{NOTHING}`"),
        values,
        unit: " ms",
        budget,
    };
    vec![
        row("wall, handed over", delivered, Some(1.0)),
        row("wall, spooled", spooled, Some(1.0)),
        row(&format!("A/A: `{NOTHING}`"), same, None),
    ]
}

/// Answers each request as soon as it is whole; ends with the bench.
fn listen(listener: UnixListener) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            stream.and_then(answer).expect("a hook that asks and listens");
        }
    });
}

fn answer(mut stream: UnixStream) -> std::io::Result<()> {
    let (mut request, mut chunk) = (Vec::new(), [0; 64 << 10]);
    while !request.ends_with(b"\"}") {
        let count = stream.read(&mut chunk)?;
        request.extend_from_slice(&chunk[..count]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
}
