use std::path::Path;

use super::File;

/// What is wrong is told by line and column, and what may have been meant (issue: configuration).
#[test]
fn mistakes_are_explained() {
    for (text, told) in [
        ("[serv]", "line 1, column 2: there is no key `serv` here; did you mean `serve`?"),
        (
            "[serve]\n  lisen = \"127.0.0.1:1\"",
            "line 2, column 3: there is no key `lisen` here; did you mean `listen`?",
        ),
        ("[limits]\nconcurency = 1", "did you mean `concurrency`?"),
        ("[[permissions]]\nprincipals = [\"*\"]\ntool = []", "did you mean `tools`?"),
        ("[serve]\nxyz = 1", "there is no key `xyz` here; there are listen, insecure"),
        ("[serve]\nlisten = \"nowhere\"", "line 2, column 10"),
        ("[serve", "line 1, column"),
        ("[serve]\ntls_key = \"k\"", "belong together"),
        ("[serve]\nallow_origins = [\"*\"]", "as a browser does"),
        ("[[permissions]]\ntools = [\"*\"]", "permissions, rule 1: say whom"),
        ("[[identity.tokens]]\nname = \"ada\"", "exactly one of sha256"),
        ("[[identity.tokens]]\nname = \"ada\"\ntoken = \"x\"", "no key `token` here"),
        ("[[identity.tokens]]\nname = \"local\"\ntoken_env = \"X\"", "`local`"),
        (
            "[identity.issuers.corp]\nissuer = \"i\"\naudience = []\njwks_url = \"u\"",
            "identity.issuers.corp: say in `audience`",
        ),
        (
            "[identity.issuers.corp]\nissuer = \"i\"\naudience = [\"a\"]\njwks_url = \"u\"\n\
             algorithms = [\"HS256\"]",
            "HS256",
        ),
        (
            "[identity]\nanonymous = true\n[[identity.tokens]]\nname = \"a\"\ntoken_env = \"X\"",
            "lets everyone in",
        ),
        ("[offer]\nstore = \"what\"", "memory:"),
        ("[offer]\nminimum_version = \"1\"", "offer.minimum_version: use one of 2024-11-05"),
        ("[log]\nlevel = \"loud\"", "unknown variant"),
    ] {
        let problem = File::parse(text).unwrap_err();
        assert!(problem.contains(told), "{text}\n{problem}");
    }
}

/// All that is wrong is told at once, in the order of the file, and nothing that only follows from it.
#[test]
fn all_mistakes_are_told_in_order() {
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
    let told = File::parse(text).unwrap_err();
    let told: Vec<_> = told.lines().collect();
    let expected = [
        ("line 2, column 7: ", "invalid type: integer `7`"),
        ("line 4, column 1: ", "permissions, rule 1: say whom"),
        ("line 8, column 1: ", "there is no key `lisen` here; did you mean `listen`?"),
        ("line 9, column 11: ", "invalid type: integer `1`"),
        ("line 11, column 1: ", "serve.drain_seconds may be 86400 at most"),
        ("line 14, column 8: ", "invalid type: integer `7`"),
        ("line 16, column 1: ", "identity.tokens, \"\": "),
        ("line 21, column 11: ", "invalid type: integer `1`"),
        ("line 24, column 10: ", "invalid type: integer `7`"),
        ("line 26, column 2: ", "there is no key `nonsense` here"),
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (told, (place, problem)) in told.iter().zip(expected) {
        assert!(told.starts_with(place) && told.contains(problem), "{told}");
    }
    let broken = File::parse("[serve]\nlisten = \nconsole = yes\n").unwrap_err();
    assert!(broken.lines().count() > 1, "{broken}");
}

/// What is shown can be read again, and means the same; what might be secret is not shown.
#[test]
fn what_is_shown_is_a_file() {
    let text = "[servers.it]\nurl = \"https://h/mcp\"\nheaders.X-Key = \"s3cret\"\n\
                env.TOKEN = \"s3cret\"";
    let shown = toml::to_string_pretty(&File::parse(text).unwrap().without_secrets()).unwrap();
    assert!(!shown.contains("s3cret") && shown.contains("X-Key"), "{shown}");
    assert!(shown.contains("listen = \"127.0.0.1:4433\""), "{shown}");
    let again = File::parse(&shown).unwrap();
    assert_eq!(toml::to_string_pretty(&again).unwrap(), shown);
}

/// Paths in a file are meant from where the file is.
#[test]
fn paths_are_meant_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flow.toml");
    std::fs::write(&path, "[offer]\nroots = [\"data\", \"/srv\"]\nstore = \"redb:j\"").unwrap();
    let file = File::read(&path).unwrap();
    assert_eq!(file.offer.roots, [folder.path().join("data"), "/srv".into()]);
    let store = file.offer.store.unwrap().to_string();
    assert_eq!(store, format!("redb:{}", folder.path().join("j").display()));
}

/// Only what can change is taken up while a server runs; the rest is named.
#[test]
fn what_waits_for_the_next_start_is_named() {
    let before = File::parse("[serve]\nlisten = \"127.0.0.1:1\"").unwrap();
    let after = "[serve]\nlisten = \"127.0.0.1:2\"\ndrain_seconds = 1\n[offer]\nroots = [\"/x\"]\n\
                 [limits]\nconcurrency = 3";
    let named = before.fixed_differences(&File::parse(after).unwrap());
    assert_eq!(named, ["offer.roots", "serve.listen"]);
}

/// The published schema is the one of this program; `mcp-flow config schema` prints it.
#[test]
fn the_published_schema_is_current() {
    let path = docs("configuration.schema.json");
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    let current = format!("{:#}\n", File::schema());
    assert!(published == current, "run: mcp-flow config schema > docs/configuration.schema.json");
}

/// Every key is described where people look for it.
#[test]
fn every_key_is_documented() {
    let text = std::fs::read_to_string(docs("configuration.md")).unwrap();
    let mut missing = Vec::new();
    each_key(&File::schema(), &mut |key| {
        if !text.contains(&format!("`{key}`")) {
            missing.push(key.to_owned());
        }
    });
    assert!(missing.is_empty(), "docs/configuration.md does not name {missing:?}");
}

fn each_key(schema: &serde_json::Value, visit: &mut impl FnMut(&str)) {
    match schema {
        serde_json::Value::Object(members) => {
            for (name, value) in members {
                if let (true, Some(keys)) = (name == "properties", value.as_object()) {
                    keys.keys().for_each(|key| visit(key));
                }
                each_key(value, visit);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| each_key(item, visit)),
        _ => {}
    }
}

fn docs(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}
