//! `cargo xtask pictures`: makes the README's screenshots of the terminal UI from the real program in a real terminal.
//!
//! The program replays the largest recording in tmux; the pane is captured with its colors, drawn as SVG, and rendered
//! by Chromium. The replay is paused at a fixed time, so that pictures are reproducible.

mod ansi;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use self::ansi::svg;
use crate::step::{cargo, output};

const FOLDER: &str = "docs/src/images";
const RECORDING: &str =
    "fixtures/claude-code/2.1.330/k-big/projects/-home-user-shop/aa151f21-dc72-4b46-a219-81097bbb7400.jsonl";

/// A picture: its name, the terminal's size, the environment's theme, and the keys before it is taken.
struct Shot {
    name: &'static str,
    size: (u16, u16),
    theme: &'static str,
    keys: &'static [&'static str],
}

const SHOTS: [Shot; 4] = [
    Shot {
        name: "agents",
        size: (120, 38),
        theme: "dark",
        keys: &["}", "}", "}", "}", "}", "}", "]", "]", "j", "j", "j", "j", "j"],
    },
    Shot {
        name: "timeline",
        size: (120, 30),
        theme: "dark",
        keys: &["L", "w", "j", "j", "j", "j", "j", "j", "j"],
    },
    Shot {
        name: "detail",
        size: (100, 34),
        theme: "light",
        keys: &["}", "}", "}", "}", "t", "j", "j", "Enter", "Up", "Up", "Up", "Up", "Up", "Up"],
    },
    Shot { name: "summary", size: (100, 24), theme: "dark", keys: &["L", "u"] },
];

/// Time for the screen to settle after a key, including a query of the host.
const SETTLE: Duration = Duration::from_millis(400);

/// Makes the pictures.
pub(crate) fn run() -> Result<()> {
    output(cargo().args(["build", "--quiet", "-p", "subscope"]))?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let binary =
        fs::canonicalize(Path::new(&target).join("debug/subscope")).context("subscope is not built")?;
    fs::create_dir_all(FOLDER)?;
    let home = std::env::temp_dir().join(format!("subscope-pictures-{}", std::process::id()));
    fs::create_dir_all(&home)?;
    let made = SHOTS.iter().try_for_each(|shot| take(shot, &binary, &home));
    fs::remove_dir_all(&home)?;
    made
}

fn take(shot: &Shot, binary: &Path, home: &Path) -> Result<()> {
    let (width, height) = shot.size;
    let socket = format!("subscope-{}-{}", shot.name, std::process::id());
    let tmux =
        |words: &[&str]| output(Command::new("tmux").args(["-L", &socket, "-f", "/dev/null"]).args(words));
    let recording = fs::canonicalize(RECORDING)?;
    let command = format!(
        "env HOME={} TZ=UTC LANG=C.UTF-8 TERM=xterm-256color SUBSCOPE_NO_AUTOSTART=1 SUBSCOPE_UI_THEME={} {} replay --step {}",
        home.display(),
        shot.theme,
        binary.display(),
        recording.display()
    );
    tmux(&["new-session", "-d", "-x", &width.to_string(), "-y", &height.to_string(), &command])?;
    let captured = (|| {
        thread::sleep(SETTLE * 3);
        for key in shot.keys {
            tmux(&["send-keys", key])?;
            thread::sleep(SETTLE);
        }
        // The line of a notice is replaced by the keys.
        thread::sleep(Duration::from_secs(5));
        tmux(&["capture-pane", "-p", "-e"])
    })();
    tmux(&["kill-server"])?;
    let picture = svg(&captured?, shot.size, shot.theme == "dark");
    let vector = PathBuf::from(FOLDER).join(format!("{}.svg", shot.name));
    fs::write(&vector, &picture.text)?;
    let image = vector.with_extension("png");
    render_png(&vector, &image, picture.size)?;
    fs::remove_file(&vector)?;
    println!("{}", image.display());
    Ok(())
}

/// Renders the SVG with Chromium at twice its size.
fn render_png(vector: &Path, image: &Path, (width, height): (u32, u32)) -> Result<()> {
    let vector = fs::canonicalize(vector)?;
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let found = browsers.iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    let Some(browser) = found else { bail!("pictures need Chromium") };
    output(Command::new(browser).args([
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        "--force-device-scale-factor=2",
        &format!("--window-size={width},{height}"),
        &format!("--screenshot={}", image.display()),
        &format!("file://{}", vector.display()),
    ]))?;
    Ok(())
}
