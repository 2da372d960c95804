//! Configuration files: reading, problems, and the published schema.

use std::path::Path;

use super::File;

/// Problems have line and column, and a suggestion.
#[test]
fn problems_are_explained() {
    for (text, message) in [
        ("[serv]", "line 1, column 2: unknown key `serv`; did you mean `serve`?"),
        (
            "[serve]\n  lisen = \"127.0.0.1:1\"",
            "line 2, column 3: unknown key `lisen`; did you mean `listen`?",
        ),
        ("[limits]\nconcurency = 1", "did you mean `concurrency`?"),
        ("[[permissions]]\nprincipals = [\"*\"]\ntool = []", "did you mean `tools`?"),
        ("[serve]\nxyz = 1", "unknown key `xyz`; known keys are listen, insecure"),
        ("[serve]\nlisten = \"nowhere\"", "line 2, column 10"),
        ("[serve", "line 1, column"),
        ("[serve]\ntls_key = \"k\"", "set both serve.tls_certificate"),
        ("[serve]\nallow_origins = [\"*\"]", "use scheme, host and port"),
        ("[[permissions]]\ntools = [\"*\"]", "permissions, rule 1: set `principals`"),
        ("[[identity.tokens]]\nname = \"ada\"", "exactly one of sha256"),
        ("[[identity.tokens]]\nname = \"ada\"\ntoken = \"x\"", "unknown key `token`"),
        ("[[identity.tokens]]\nname = \"local\"\ntoken_env = \"X\"", "`local`"),
        (
            "[identity.issuers.corp]\nissuer = \"i\"\naudience = []\njwks_url = \"u\"",
            "identity.issuers.corp: set `audience`",
        ),
        (
            "[identity.issuers.corp]\nissuer = \"i\"\naudience = [\"a\"]\njwks_url = \"u\"\n\
             algorithms = [\"HS256\"]",
            "HS256",
        ),
        (
            "[identity]\nanonymous = true\n[[identity.tokens]]\nname = \"a\"\ntoken_env = \"X\"",
            "disables authentication",
        ),
        ("[offer]\nstore = \"what\"", "memory:"),
        ("[offer]\nminimum_version = \"1\"", "offer.minimum_version: use one of 2024-11-05"),
        ("[log]\nlevel = \"loud\"", "expected one of `off`"),
        ("[identity.issuers.corp]\nissuer = \"i\"", "the key `audience` is missing"),
    ] {
        let problem = File::parse(text).unwrap_err();
        assert!(problem.contains(message), "{text}\n{problem}");
    }
}

/// All problems are reported at once, in the order of the file, without those that only follow from
/// others.
#[test]
fn all_problems_are_reported_in_order() {
    let text = "\
[servers.it]
url = 7

[[permissions]]
tools = [\"*\"]

[serve]
lisen = \"127.0.0.1:1\"
tls_key = 1
tls_certificate = \"chain.pem\"
drain_seconds = 100000

[[identity.tokens]]
name = 7

[[identity.tokens]]
sha256 = \"x\"

[[permissions]]
principals = [\"ada\"]
scopes = [1, \"a\"]

[identity.issuers.corp]
issuer = 7

[nonsense]
";
    let problems = File::parse(text).unwrap_err();
    let problems: Vec<_> = problems.lines().collect();
    let expected = [
        ("line 2, column 7: ", "expected a string, found integer `7`"),
        ("line 4, column 1: ", "permissions, rule 1: set `principals`"),
        ("line 8, column 1: ", "unknown key `lisen`; did you mean `listen`?"),
        ("line 9, column 11: ", "found integer `1`"),
        ("line 11, column 1: ", "serve.drain_seconds must be at most 86400"),
        ("line 14, column 8: ", "expected a string, found integer `7`"),
        ("line 16, column 1: ", "identity.tokens, \"\": "),
        ("line 21, column 11: ", "found integer `1`"),
        ("line 24, column 10: ", "expected a string, found integer `7`"),
        ("line 26, column 2: ", "unknown key `nonsense`"),
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (found, (position, problem)) in problems.iter().zip(expected) {
        assert!(found.starts_with(position) && found.contains(problem), "{found}");
    }
    for (text, problem) in [
        ("limits = true", "expected a table, found boolean `true`"),
        ("[limits]\nframe_bytes = -1", "expected a whole number from 0, found integer `-1`"),
        ("[serve]\nlisten = \"here\"", "expected an address with a port"),
        ("[serve]\nlisten = 7", "expected an address with a port"),
    ] {
        let found = File::parse(text).unwrap_err();
        assert!(found.contains(problem), "{found}");
    }
    let broken = File::parse("[serve]\nlisten = \nconsole = yes\n").unwrap_err();
    assert!(broken.lines().count() > 1, "{broken}");
}

/// The output of `config show` is a configuration file with the same values, without secrets.
#[test]
fn a_shown_configuration_can_be_read_again() {
    let text = "[servers.it]\nurl = \"https://h/mcp\"\nheaders.X-Key = \"s3cret\"\n\
                env.TOKEN = \"s3cret\"";
    let shown = toml::to_string_pretty(&File::parse(text).unwrap().without_secrets()).unwrap();
    assert!(!shown.contains("s3cret") && shown.contains("X-Key"), "{shown}");
    assert!(shown.contains("listen = \"127.0.0.1:4433\""), "{shown}");
    let again = File::parse(&shown).unwrap();
    assert_eq!(toml::to_string_pretty(&again).unwrap(), shown);
}

/// Relative paths start at the directory of the file.
#[test]
fn relative_paths_start_at_the_directory_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flow.toml");
    std::fs::write(&path, "[offer]\nroots = [\"data\", \"/srv\"]\nstore = \"redb:j\"").unwrap();
    let file = File::read(&path).unwrap();
    assert_eq!(file.offer.roots, [folder.path().join("data"), "/srv".into()]);
    let store = file.offer.store.unwrap().to_string();
    assert_eq!(store, format!("redb:{}", folder.path().join("j").display()));
}

/// Keys that cannot change while a server runs are listed.
#[test]
fn changes_that_need_a_restart_are_listed() {
    let before = File::parse("[serve]\nlisten = \"127.0.0.1:1\"").unwrap();
    let after = "[serve]\nlisten = \"127.0.0.1:2\"\ndrain_seconds = 1\n[offer]\nroots = [\"/x\"]\n\
                 [limits]\nconcurrency = 3";
    let named = before.changes_that_need_a_restart(&File::parse(after).unwrap());
    assert_eq!(named, ["offer.roots", "serve.listen"]);
}

/// The published schema equals the output of `mcp-flow config schema`.
#[test]
fn the_published_schema_is_current() {
    let path = docs("configuration.schema.json");
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    let current = format!("{:#}\n", File::schema());
    assert!(published == current, "run: mcp-flow config schema > docs/configuration.schema.json");
}

fn docs(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}
