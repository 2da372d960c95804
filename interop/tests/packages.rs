//! The packages of `./dist`, made of the program under test: installed, imported, and run.

use std::path::Path;

use interop::{Outcome, python, run, strip_program};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

/// One run makes all packages, because that takes longer than trying them.
#[tokio::test]
async fn packages_are_made_installed_and_imported() {
    let packages = Packages::make().await;
    check_sums(&packages).await;
    check_sbom(&packages).await;
    check_debian_package(&packages).await;
    check_image(&packages).await;
}

/// Packages are the same bytes each time.
async fn check_sums(packages: &Packages) {
    let again = packages.folder.path().join("again");
    packages.dist(&again).await;
    let sums = std::fs::read_to_string(packages.path("SHA256SUMS")).unwrap();
    assert_eq!(sums, std::fs::read_to_string(again.join("SHA256SUMS")).unwrap());
    assert_eq!(sums.lines().count(), 4, "{sums}");
    let mut check = Command::new("sha256sum");
    succeed(check.args(["--check", "SHA256SUMS"]).current_dir(packages.path(""))).await;
}

/// The SBOM is valid, and lists what is in the program but not what only tests need.
async fn check_sbom(packages: &Packages) {
    let sbom = packages.path(&format!("mcp-flow-{VERSION}-x86_64.cdx.json"));
    succeed(python("schemas/validate.py").arg("sbom").arg(&sbom)).await;
    let sbom: Value = serde_json::from_str(&std::fs::read_to_string(sbom).unwrap()).unwrap();
    let names = sbom["components"].as_array().unwrap().iter().map(|one| &one["name"]);
    let names: Vec<_> = names.filter_map(Value::as_str).collect();
    for name in ["mcp-flow", "tokio", "ring"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(!names.contains(&"proptest"), "{names:?}");
}

/// The package installs, upgrades, and leaves nothing but its user behind.
async fn check_debian_package(packages: &Packages) {
    let root = packages.folder.path().join("root");
    for folder in ["etc", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/mcp-flow"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    for file in ["var/lib/dpkg/status", "etc/passwd", "etc/group"] {
        std::fs::write(root.join(file), "").unwrap();
    }
    let package = packages.path(&format!("mcp-flow_{VERSION}_amd64.deb"));
    let package = package.to_str().unwrap();
    for _ in ["installed", "upgraded"] {
        dpkg(&root, &["--install", package]).await;
        let users = std::fs::read_to_string(root.join("etc/passwd")).unwrap();
        assert_eq!(users.lines().count(), 1, "{users}");
        assert!(users.starts_with("mcp-flow:") && users.contains("/usr/sbin/nologin"), "{users}");
    }
    for file in [
        "usr/share/man/man1/mcp-flow.1.gz",
        "usr/share/man/man1/mcp-flow-serve.1.gz",
        "usr/share/bash-completion/completions/mcp-flow",
        "usr/share/zsh/vendor-completions/_mcp-flow",
        "usr/share/fish/vendor_completions.d/mcp-flow.fish",
        "usr/lib/systemd/system/mcp-flow.service",
        "usr/share/doc/mcp-flow/copyright",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
    let completions = root.join("usr/share/bash-completion/completions/mcp-flow");
    succeed(Command::new("bash").arg("-n").arg(completions)).await;
    // The service reads the configuration, other users do not.
    let mut modes = Command::new("stat");
    modes.args(["--format=%a %u", "etc/mcp-flow", "etc/mcp-flow/config.toml"]);
    let modes = succeed(modes.current_dir(&root)).await;
    assert_eq!(modes.stdout, "750 0\n640 0\n");

    let program = root.join("usr/bin/mcp-flow");
    let config = root.join("etc/mcp-flow/config.toml");
    succeed(Command::new(&program).args(["config", "check"]).arg(&config)).await;
    let mut call = Command::new(&program);
    call.args(["call", "calculator.add", "a=2", "b=3", "--"]).arg(&program);
    call.args(["stdio", "--store", "memory:", "--config"]).arg(&config);
    assert_eq!(succeed(&mut call).await.stdout, "5\n");

    dpkg(&root, &["--remove", "mcp-flow"]).await;
    assert!(!program.exists() && config.exists());
    dpkg(&root, &["--purge", "mcp-flow"]).await;
    assert!(!config.exists() && !root.join("var/lib/mcp-flow").exists());
}

/// Other programs import the image, which runs as a user without privileges.
async fn check_image(packages: &Packages) {
    let archive = packages.path(&format!("mcp-flow-{VERSION}-x86_64.oci.tar"));
    let archive = format!("oci-archive:{}:{VERSION}", archive.display());
    let mut inspect = Command::new("skopeo");
    inspect.args(["inspect", "--insecure-policy", "--config", &archive]);
    let image = succeed(&mut inspect).await.json();
    assert_eq!((&image["os"], &image["architecture"]), (&json!("linux"), &json!("amd64")));
    assert_eq!(image["config"]["User"], "65532:65532");
    assert_eq!(image["config"]["Entrypoint"], json!(["/usr/bin/mcp-flow"]));

    let folder = packages.folder.path();
    let layout = format!("{}:{VERSION}", folder.join("layout").display());
    let mut copy = Command::new("skopeo");
    copy.args(["copy", "--insecure-policy", &archive, &format!("oci:{layout}")]);
    succeed(&mut copy).await;
    let bundle = folder.join("bundle");
    let mut unpack = Command::new("umoci");
    unpack.args(["unpack", "--rootless", "--image", &layout]).arg(&bundle);
    succeed(&mut unpack).await;
    let root = bundle.join("rootfs");
    let shown = succeed(Command::new(root.join("usr/bin/mcp-flow")).arg("--version")).await;
    assert!(shown.stdout.starts_with(&format!("mcp-flow {VERSION}")), "{shown:?}");
    // Nothing else that could run or be exploited.
    let programs = std::fs::read_dir(root.join("usr/bin")).unwrap().count();
    assert_eq!(programs, 1);
    let mut names: Vec<_> = std::fs::read_dir(&root).unwrap().collect::<Result<_, _>>().unwrap();
    names.sort_by_key(std::fs::DirEntry::file_name);
    let names: Vec<_> = names.iter().map(std::fs::DirEntry::file_name).collect();
    assert_eq!(names, ["etc", "tmp", "usr", "var"]);
}

#[tokio::test]
async fn wrong_options_are_explained() {
    for (arguments, code, message) in [
        (&["--nonsense"][..], 2, "usage: ./dist"),
        (&["--binary"], 2, "usage: ./dist"),
        (&["--target", "vax"], 2, "usage: ./dist"),
        (&["--binary", "/nonexistent"], 1, "/nonexistent is not a program"),
        (&["--binary", "/bin/sh", "--compare"], 1, "leave out --binary"),
    ] {
        let outcome = run(Command::new(ROOT.to_owned() + "/dist").args(arguments)).await;
        assert_eq!(outcome.code, Some(code), "{arguments:?}: {outcome:?}");
        assert!(outcome.stderr.contains(message), "{arguments:?}: {outcome:?}");
    }
}

/// What the toolchain lacks is named, with the C compiler that Debian has for the architecture.
#[tokio::test]
async fn a_missing_target_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let rustc = folder.path().join("rustc");
    std::fs::write(&rustc, format!("#!/bin/sh\necho {}\n", folder.path().display())).unwrap();
    std::fs::set_permissions(&rustc, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut path = folder.path().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    for (machine, compiler) in [("x86_64", "musl-tools"), ("aarch64", "gcc-aarch64-linux-gnu")] {
        let mut dist = Command::new(ROOT.to_owned() + "/dist");
        dist.args(["--target", machine]).env("PATH", &path).env("SOURCE_DATE_EPOCH", "0");
        let outcome = run(&mut dist).await;
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.stderr.contains(&format!("install {compiler}")), "{outcome:?}");
    }
}

/// Packages of the program under test, removed with the value.
struct Packages {
    folder: TempDir,
}

impl Packages {
    async fn make() -> Self {
        let packages = Self { folder: tempfile::tempdir().unwrap() };
        strip_program(packages.folder.path());
        packages.dist(&packages.path("")).await;
        packages
    }

    async fn dist(&self, output: &Path) {
        let mut dist = Command::new(ROOT.to_owned() + "/dist");
        dist.arg("--binary").arg(self.folder.path().join("mcp-flow")).arg("--output").arg(output);
        // Without it, the time of the last commit.
        succeed(dist.arg("--fast").env("SOURCE_DATE_EPOCH", "1700000000")).await;
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("packages").join(name)
    }
}

/// Runs dpkg on another root, whose scripts are run by the shell of this one.
async fn dpkg(root: &Path, arguments: &[&str]) {
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(format!("--root={}", root.display()));
    // The packages it needs are not in there.
    dpkg.args(["--force-script-chrootless", "--force-depends", "--log=/dev/null"]);
    succeed(dpkg.args(arguments)).await;
}

/// Runs a command that has to succeed.
async fn succeed(command: &mut Command) -> Outcome {
    let outcome = run(command).await;
    assert_eq!(outcome.code, Some(0), "{command:?}: {outcome:#?}");
    outcome
}

/// Version of all crates of the workspace, and so of the packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
