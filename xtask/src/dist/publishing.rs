//! Tests of the scripts that publish (`packaging/{npm,crates,vscode}/publish.sh`), with the real npm and registries of the
//! test's own.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use base64::Engine;
use serde_json::{Value, json};

use crate::step::{output, program, root, skip, succeeds};

const VERSION: &str = "1.2.3";

/// A package that was published: its packument, and its file.
struct Published {
    document: Value,
    file: Vec<u8>,
    /// How often the registry still says that it has none.
    hidden: u32,
}

/// What a registry knows, and what it was asked.
#[derive(Default)]
struct Known {
    packages: BTreeMap<String, Published>,
    /// Refusals of publications to come.
    refusals: u32,
    /// `PUT NAME` and `file NAME`, in their order.
    log: Vec<String>,
}

/// An npm registry that accepts publications, and shows each only when it was asked for some times.
struct Registry {
    url: String,
    known: Arc<Mutex<Known>>,
}

impl Registry {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let known = Arc::new(Mutex::new(Known::default()));
        let (shared, own) = (Arc::clone(&known), url.clone());
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (shared, own) = (Arc::clone(&shared), own.clone());
                thread::spawn(move || answer(&connection, &own, &shared));
            }
        });
        Self { url, known }
    }

    /// Returns what was published and fetched since the last call.
    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner).log)
    }

    fn refuse_next(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).refusals = 1;
    }
}

fn answer(mut connection: &TcpStream, url: &str, known: &Mutex<Known>) {
    let mut reader = BufReader::new(connection);
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).unwrap() > 2 {
        let value = line.to_ascii_lowercase();
        length = value.strip_prefix("content-length:").map_or(length, |text| text.trim().parse().unwrap());
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap_or_default());
    let (status, bytes) = respond(method, path.trim_start_matches('/'), &body, url, known);
    let length = bytes.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    // A client that hangs up early is its own affair.
    let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(&bytes));
}

fn respond(
    method: &str,
    path: &str,
    body: &[u8],
    url: &str,
    known: &Mutex<Known>,
) -> (&'static str, Vec<u8>) {
    const MISSING: (&str, &[u8]) = ("404 Not Found", b"{\"error\":\"Not found\"}");
    let missing = || (MISSING.0, MISSING.1.to_vec());
    let path = path.split('?').next().unwrap_or(path);
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = path.strip_prefix("files/") {
        let name = name.trim_end_matches(".tgz").replace("__", "/");
        known.log.push(format!("file {name}"));
        return known.packages.get(&name).map_or_else(missing, |package| ("200 OK", package.file.clone()));
    }
    let name = path.replace("%2f", "/").replace("%2F", "/");
    if method == "PUT" {
        if known.refusals > 0 {
            known.refusals -= 1;
            return ("503 Service Unavailable", b"{\"error\":\"later\"}".to_vec());
        }
        known.log.push(format!("PUT {name}"));
        let mut document: Value = serde_json::from_slice(body).unwrap();
        let attached = document["_attachments"].as_object().unwrap().values().next().unwrap()["data"].clone();
        let file = base64::engine::general_purpose::STANDARD.decode(attached.as_str().unwrap()).unwrap();
        let place = format!("{url}/files/{}.tgz", name.replace('/', "__"));
        document["versions"][VERSION]["dist"]["tarball"] = json!(place);
        known.packages.insert(name, Published { document, file, hidden: 2 });
        return ("201 Created", b"{}".to_vec());
    }
    match known.packages.get_mut(&name) {
        Some(package) if package.hidden == 0 => ("200 OK", package.document.to_string().into_bytes()),
        Some(package) => {
            package.hidden -= 1;
            missing()
        }
        None => missing(),
    }
}

/// A folder of the test's own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("subscope-{name}-{}", std::process::id()));
    super::empty_folder(&folder).unwrap();
    folder
}

/// Packs a package below a folder of packages.
fn pack(release: &Path, manifest: &Value, file: &str, text: &str) {
    let package = release.join("scratch").join(manifest["name"].as_str().unwrap().replace('/', "-"));
    super::write(&package.join("package.json"), manifest.to_string()).unwrap();
    super::write(&package.join(file), text).unwrap();
    fs::set_permissions(package.join(file), fs::Permissions::from_mode(0o755)).unwrap();
    output(program("npm").args(["pack", "--silent", "--pack-destination"]).arg(release).arg(package))
        .unwrap();
}

/// Makes the packages of a release: two platforms, of which one is this machine's, the launcher, and the library.
fn release(folder: &Path) -> String {
    let here = output(program("node").args(["-p", "`${process.platform}-${process.arch}`"])).unwrap();
    let (own, other) = (format!("@subscope/{}", here.trim()), "@subscope/darwin-other".to_owned());
    let mut optional = serde_json::Map::new();
    for name in [&own, &other] {
        let mut manifest = json!({ "name": name, "version": VERSION });
        if *name == other {
            manifest["cpu"] = json!(["other"]);
        }
        pack(folder, &manifest, "bin/subscope", "#!/bin/sh\necho \"the binary was run: $*\"\n");
        optional.insert(name.clone(), json!(VERSION));
    }
    let launcher = super::template("npm/launcher.js").unwrap().replace("@PROGRAM@", "subscope");
    let bin = json!({ "subscope": "bin/subscope.js" });
    let manifest =
        json!({ "name": "subscope", "version": VERSION, "bin": bin, "optionalDependencies": optional });
    pack(folder, &manifest, "bin/subscope.js", &launcher);
    pack(folder, &json!({ "name": "subscope-client", "version": VERSION }), "index.js", "");
    own
}

fn publish(folder: &Path, registry: &Registry) -> Output {
    let settings = folder.join("npmrc");
    let host = registry.url.trim_start_matches("http:");
    fs::write(&settings, format!("registry={}\n{host}/:_authToken=x\n", registry.url)).unwrap();
    let mut script = Command::new("sh");
    script.arg(root().join("packaging/npm/publish.sh")).arg(folder);
    script.env("NPM_CONFIG_USERCONFIG", &settings).env("NPM_WAIT", "0.1").env("NPM_LOOKS", "50");
    script.env("npm_config_fetch_retries", "0").env("npm_config_update_notifier", "false");
    script.env("npm_config_cache", folder.join("cache")).output().unwrap()
}

#[test]
fn npm_packages_are_published_in_order_and_again_after_an_error() {
    if !succeeds(program("npm").arg("--version")) {
        return skip("publishing to npm", "there is no npm here");
    }
    let folder = folder("npm");
    let own = release(&folder);
    let registry = Registry::start();

    registry.refuse_next();
    let ran = publish(&folder, &registry);
    assert!(!ran.status.success(), "a refused publication is an error");
    assert_eq!(registry.log(), [] as [&str; 0], "nothing after it is published");

    let ran = publish(&folder, &registry);
    let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("the binary was run: demo --plain --speed 10000"), "{stdout}\n{stderr}");
    let log = registry.log();
    let at =
        |entry: &str| log.iter().position(|it| it == entry).unwrap_or_else(|| panic!("{entry}: {log:?}"));
    for native in [own.as_str(), "@subscope/darwin-other"] {
        assert!(at(&format!("PUT {native}")) < at("PUT subscope"), "{log:?}");
        assert!(at(&format!("file {native}")) < at("PUT subscope"), "fetched before it is named: {log:?}");
    }
    assert!(at("PUT subscope-client") > 0 && at("file subscope") > at("PUT subscope"), "{log:?}");

    let ran = publish(&folder, &registry);
    let stdout = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(registry.log().iter().all(|entry| !entry.starts_with("PUT")), "each version once");
    assert_eq!(stdout.matches("is there already").count(), 4, "{stdout}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn crates_whose_version_the_index_has_are_left_out() {
    if !["curl", "jq"].iter().all(|tool| succeeds(program(tool).arg("--version"))) {
        return skip("publishing to crates.io", "there is no curl or jq here");
    }
    let folder = folder("crates");
    let bin = folder.join("bin/cargo");
    super::write(
        &bin,
        "#!/bin/sh\n[ \"$1\" = metadata ] || { echo \"cargo $*\"; exit; }\n\
         echo '{\"packages\":[{\"name\":\"subscope\",\"version\":\"1.2.3\",\"publish\":null},\
         {\"name\":\"subscope-run\",\"version\":\"1.2.3\",\"publish\":null},\
         {\"name\":\"xtask\",\"version\":\"0.0.0\",\"publish\":[]}]}'\n",
    )
    .unwrap();
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::join_paths(
        [folder.join("bin")].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    )
    .unwrap();
    let run = |index: &str| {
        let mut script = Command::new("sh");
        script.arg(root().join("packaging/crates/publish.sh")).arg("--no-verify").env("PATH", &path);
        script.env("CRATES_INDEX", index).output().unwrap()
    };
    // Nothing listens at this port.
    assert!(!run("http://127.0.0.1:1").status.success(), "an index that gives no answer is an error");

    let serve = |lines: &[(&str, &str)]| {
        let routes = lines.iter().map(|(path, line)| ((*path).to_owned(), line.as_bytes().to_vec()));
        super::trial::serve(routes.collect()).unwrap()
    };
    let published = |index: &str| {
        let ran = run(index);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let none = serve(&[]);
    assert_eq!(published(&none), "cargo publish --locked --workspace --no-verify\n");
    let (old, new) = (r#"{"name":"subscope","vers":"1.2.2"}"#, r#"{"name":"subscope-run","vers":"1.2.3"}"#);
    let some = serve(&[("/su/bs/subscope", old), ("/su/bs/subscope-run", new)]);
    assert_eq!(
        published(&some),
        "subscope-run 1.2.3 is there already\ncargo publish --locked --workspace --exclude subscope-run --no-verify\n"
    );
    let all = serve(&[("/su/bs/subscope", r#"{"vers":"1.2.3"}"#), ("/su/bs/subscope-run", new)]);
    assert!(!published(&all).contains("cargo publish"));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn extension_is_published_in_both_registries_and_one_does_not_delay_the_other() {
    let folder = folder("vsix");
    let npx = folder.join("bin/npx");
    super::write(
        &npx,
        "#!/bin/sh\necho \"npx $*\"\ncase \"$*\" in *vsce*) exit \"${VSCE_EXIT:-0}\";; esac\n",
    )
    .unwrap();
    fs::set_permissions(&npx, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::join_paths(
        [folder.join("bin")].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    )
    .unwrap();
    let run = |variables: &[(&str, &str)]| {
        let mut script = Command::new("sh");
        script.arg(root().join("packaging/vscode/publish.sh")).arg(folder.join("release")).env("PATH", &path);
        script.env_remove("VSCE_PAT").env_remove("OVSX_PAT").envs(variables.iter().copied());
        let ran = script.output().unwrap();
        let text = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (ran.status.success(), text)
    };
    let tokens = [("VSCE_PAT", "v"), ("OVSX_PAT", "o")];
    assert!(!run(&tokens).0, "a folder without a package is an error");

    super::write(&folder.join("release/subscope-1.2.3.vsix"), "").unwrap();
    let (is_done, text) = run(&tokens);
    assert!(is_done, "{text}");
    for word in ["vsce@", "ovsx@"] {
        let line = text.lines().find(|line| line.contains(word)).unwrap_or_else(|| panic!("{word}: {text}"));
        assert!(
            line.contains(" publish --skip-duplicate") && line.ends_with("subscope-1.2.3.vsix"),
            "{line}"
        );
    }
    assert!(!text.contains("VSCE_PAT"), "{text}");

    let (is_done, text) = run(&[tokens[0], tokens[1], ("VSCE_EXIT", "1")]);
    assert!(
        !is_done
            && text.contains("Marketplace: not published")
            && text.contains("Open VSX: subscope-1.2.3.vsix"),
        "{text}"
    );
    let (is_done, text) = run(&[tokens[0]]);
    assert!(
        !is_done && text.contains("OVSX_PAT is not set") && text.contains("Marketplace: subscope"),
        "{text}"
    );
    super::write(&folder.join("release/subscope-1.2.4.vsix"), "").unwrap();
    assert!(!run(&tokens).0, "which of two is meant is not known");
    fs::remove_dir_all(&folder).unwrap();
}
