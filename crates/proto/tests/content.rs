//! Encoding and decoding of content: every form, every revision, both encodings.

use mcp_flow_proto::model::{
    Annotations, Audience, Content, ContentForm, ResourceContents, ResourceLink,
};
use mcp_flow_proto::{Encoding, Raw, Revision};
use serde_json::{Value, json};

const URL: &str = "https://a.example/b.png";

/// MCP-058, MCP-059, MCP-060, MCP-061, C-25, C-26, C-40: each revision gets the types it has, and
/// the nearest equivalent of those it lacks.
#[test]
fn content_follows_the_revision() {
    for (content, by_revision) in [
        (Content::text("hi"), [(0..5, json!({"type": "text", "text": "hi"}))].as_slice()),
        (
            Content::image([1, 2, 255], "image/png"),
            &[(0..5, json!({"type": "image", "data": "AQL/", "mimeType": "image/png"}))],
        ),
        (
            Content::image_with_url([1], "image/png", URL),
            &[
                (
                    0..1,
                    json!({"type": "image", "data": "AQ==", "mimeType": "image/png", "url": URL}),
                ),
                (1..5, json!({"type": "image", "data": "AQ==", "mimeType": "image/png"})),
            ],
        ),
        (
            Content::image_url(URL),
            &[
                (0..2, json!({"type": "text", "text": format!("b.png: {URL}")})),
                (2..5, json!({"type": "resource_link", "uri": URL, "name": "b.png"})),
            ],
        ),
        (
            typed_image_url(),
            &[
                (0..2, json!({"type": "text", "text": "b: x:/b"})),
                (
                    2..5,
                    json!({"type": "resource_link", "uri": "x:/b", "name": "b", "mimeType": "image/gif"}),
                ),
            ],
        ),
        (
            Content::audio([0], "audio/wav"),
            &[
                (
                    0..1,
                    json!({"type": "resource", "resource":
                        {"uri": "inline:content", "mimeType": "audio/wav", "blob": "AA=="}}),
                ),
                (1..5, json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"})),
            ],
        ),
        (
            Content::embedded(ResourceContents::text("file:///a", "x")),
            &[(0..5, json!({"type": "resource", "resource": {"uri": "file:///a", "text": "x"}}))],
        ),
        (
            Content::embedded(ResourceContents::bytes("file:///a", [0]).with_mime_type("a/b")),
            &[(
                0..5,
                json!({"type": "resource", "resource":
                    {"uri": "file:///a", "mimeType": "a/b", "blob": "AA=="}}),
            )],
        ),
        (
            Content::link("file:///a", "a"),
            &[
                (0..2, json!({"type": "text", "text": "a: file:///a"})),
                (2..5, json!({"type": "resource_link", "uri": "file:///a", "name": "a"})),
            ],
        ),
        (
            full_link(),
            &[
                (0..2, json!({"type": "text", "text": "The A: file:///a"})),
                (
                    2..5,
                    json!({"type": "resource_link", "uri": "file:///a", "name": "a",
                        "title": "The A", "description": "first", "mimeType": "text/plain",
                        "size": 7}),
                ),
            ],
        ),
        (
            Content::link("urn:a", "urn:a"),
            &[
                (0..2, json!({"type": "text", "text": "urn:a"})),
                (2..5, json!({"type": "resource_link", "uri": "urn:a", "name": "urn:a"})),
            ],
        ),
    ] {
        for (revisions, expected) in by_revision {
            for revision in &Revision::ALL[revisions.clone()] {
                check_sent(&content, *revision, ContentForm::Official, expected);
            }
        }
    }
}

/// MCP-059, MCP-060, MCP-061, C-25, C-26: seed 002's form is the same in every revision.
#[test]
fn seed_002_has_its_own_form() {
    for (content, expected) in [
        (Content::text("hi"), json!({"type": "text", "text": "hi"})),
        (
            Content::image([1], "image/png"),
            json!({"type": "image", "data": "AQ==", "mimeType": "image/png"}),
        ),
        (
            Content::image_with_url([1], "image/png", URL),
            json!({"type": "image", "url": URL, "data": "AQ==", "mimeType": "image/png"}),
        ),
        (Content::image_url(URL), json!({"type": "image", "url": URL})),
        (typed_image_url(), json!({"type": "image", "url": "x:/b", "mimeType": "image/gif"})),
        (full_link(), json!({"type": "resource", "uri": "file:///a"})),
        (
            Content::embedded(ResourceContents::bytes("file:///a", [0]).with_mime_type("a/b")),
            json!({"type": "embedded", "mimeType": "a/b", "data": "AA=="}),
        ),
        (
            Content::embedded(ResourceContents::bytes("file:///a", [0])),
            json!({"type": "embedded", "mimeType": "application/octet-stream", "data": "AA=="}),
        ),
        (
            Content::embedded(ResourceContents::text("file:///a", "hi")),
            json!({"type": "embedded", "mimeType": "text/plain", "data": "aGk="}),
        ),
    ] {
        for revision in Revision::ALL {
            check_sent(&content, revision, ContentForm::Seed002, &expected);
        }
    }
    // Seed 002 has no audio; C-40 applies, with seed 002's form of embedding.
    let sound = Content::audio([0], "audio/wav");
    for (revision, kind) in
        Revision::ALL.into_iter().zip(["embedded", "audio", "audio", "audio", "audio"])
    {
        let expected = json!({"type": kind, "data": "AA==", "mimeType": "audio/wav"});
        check_sent(&sound, revision, ContentForm::Seed002, &expected);
    }
}

/// C-25, C-26: every form is accepted, and unknown members are ignored.
#[test]
fn content_is_read_in_every_form() {
    let embedded = |resource| Content::embedded(resource);
    for (sent, expected) in [
        (json!({"type": "text", "text": "hi", "data": 7}), Content::text("hi")),
        (
            json!({"type": "image", "data": "AQL/", "mimeType": "image/png", "x": {}}),
            Content::image([1, 2, 255], "image/png"),
        ),
        (
            json!({"type": "image", "data": "AQ==", "mimeType": "image/png", "url": URL}),
            Content::image_with_url([1], "image/png", URL),
        ),
        (json!({"type": "image", "url": URL, "data": null}), Content::image_url(URL)),
        (json!({"type": "image", "url": "x:/b", "mimeType": "image/gif"}), typed_image_url()),
        (
            json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}),
            Content::audio([0], "audio/wav"),
        ),
        (
            json!({"type": "resource", "resource": {"uri": "a:b", "text": "x"}}),
            embedded(ResourceContents::text("a:b", "x")),
        ),
        (
            json!({"type": "resource", "resource": {"uri": "a:b", "mimeType": "c/d", "blob": ""}}),
            embedded(ResourceContents::bytes("a:b", []).with_mime_type("c/d")),
        ),
        (
            json!({"type": "embedded", "mimeType": "a/b", "data": "AA=="}),
            embedded(ResourceContents::bytes("inline:content", [0]).with_mime_type("a/b")),
        ),
        (
            json!({"type": "resource", "uri": "a:b", "data": "AA=="}),
            embedded(ResourceContents::bytes("a:b", [0])),
        ),
        (
            json!({"type": "embedded", "resource": {"uri": "a:b", "text": ""}}),
            embedded(ResourceContents::text("a:b", "")),
        ),
        (
            json!({"type": "resource", "uri": "resource://example"}),
            Content::link("resource://example", "example"),
        ),
        (json!({"type": "resource_link", "uri": "file:///a", "name": "b"}), {
            Content::link("file:///a", "b")
        }),
        (json!({"type": "resource_link", "uri": "file:///a"}), Content::link("file:///a", "a")),
        (
            json!({"type": "resource_link", "uri": "file:///a", "name": "a", "title": "The A",
                "description": "first", "mimeType": "text/plain", "size": 7}),
            full_link(),
        ),
    ] {
        for encoding in [Encoding::Json, Encoding::Cbor] {
            assert_eq!(read(&sent, encoding).unwrap(), expected, "{sent} in {encoding:?}");
        }
    }
}

/// C-25, C-26: errors name the missing or invalid member.
#[test]
fn malformed_content_is_explained() {
    for (sent, words) in [
        (json!({}), "content needs `type`"),
        (json!({"type": 7}), "`type` must be a string"),
        (json!({"type": "tool_use"}), "no content of type \"tool_use\""),
        (json!({"type": "x".repeat(1000)}), "xxx\";"),
        (json!({"type": "text"}), "text content needs `text`"),
        (json!({"type": "text", "text": ["a"]}), "`text` must be a string"),
        (json!({"type": "image"}), "needs `data` and `mimeType`, or `url`"),
        (json!({"type": "image", "data": "AA=="}), "with `data` needs `mimeType`"),
        (json!({"type": "image", "data": "?", "mimeType": "a/b"}), "`data` must be base64"),
        (json!({"type": "image", "url": {}}), "`url` must be a string"),
        (json!({"type": "audio", "mimeType": "a/b"}), "audio content needs `data`"),
        (json!({"type": "audio", "data": ""}), "audio content needs `mimeType`"),
        (json!({"type": "resource"}), "resource content needs `resource`, `data` or `uri`"),
        (json!({"type": "embedded"}), "embedded content needs `resource`, `data` or `uri`"),
        (json!({"type": "resource", "resource": 7}), "`resource` must be an object"),
        (json!({"type": "resource", "resource": {"text": ""}}), "resource needs `uri`"),
        (json!({"type": "resource", "resource": {"uri": "a:b"}}), "needs `text` or `blob`"),
        (json!({"type": "resource_link"}), "a resource link needs `uri`"),
        (json!({"type": "resource_link", "uri": "a:b", "size": -1}), "`size` must be a whole"),
        (json!({"type": "text", "text": "", "annotations": "x"}), "`annotations` must be"),
        (json!({"type": "text", "text": "", "_meta": []}), "`_meta` must be an object"),
        (json!(["text"]), "an object"),
    ] {
        let error = read(&sent, Encoding::Json).unwrap_err();
        assert!(error.contains(words) && error.len() < 300, "{sent}: {error}");
        assert!(read(&sent, Encoding::Cbor).is_err(), "{sent}");
    }
    let twice = Raw::Json(r#"{"type":"text","text":"a","text":"b"}"#).decode::<Content>();
    assert!(twice.unwrap_err().to_string().contains("twice"));
}

/// MCP-058: annotations are kept in every form, `_meta` since the revision that has it.
#[test]
fn annotations_and_meta_survive_a_round_trip() {
    let meta = json!({"a": {"b": 1}}).as_object().unwrap().clone();
    let hints = Annotations {
        audience: vec![Audience::User],
        priority: Some(0.5),
        last_modified: Some("2025-01-01T00:00:00Z".into()),
    };
    let mut resource = ResourceContents::text("a:b", "x");
    resource.meta = Some(Box::new(meta.clone()));
    for content in [
        Content::text("hi"),
        Content::image([1], "image/png"),
        Content::image_url(URL),
        Content::audio([0], "audio/wav"),
        Content::embedded(resource),
        Content::link("a:b", "b"),
    ] {
        let content = content.with_annotations(hints.clone()).with_meta(meta.clone());
        for form in [ContentForm::Official, ContentForm::Seed002] {
            for revision in Revision::ALL {
                let sent = serde_json::to_value(content.wire(revision, form)).unwrap();
                let (has_meta, sends_meta) =
                    (sent.get("_meta").is_some(), revision.features().structured_content);
                assert_eq!(has_meta, sends_meta, "{revision}: {sent}");
                assert_eq!(sent["annotations"]["priority"], 0.5);
            }
        }
        let sent = serde_json::to_value(&content).unwrap();
        let received = read(&sent, Encoding::Json).unwrap();
        assert_eq!(serde_json::to_value(&received).unwrap(), sent);
        assert_eq!(sent["_meta"], json!({"a": {"b": 1}}));
        let is_link = matches!(content, Content::ImageUrl { .. });
        assert!(received == content || is_link, "an image's URL is a link in the official form");
    }
}

fn check_sent(content: &Content, revision: Revision, form: ContentForm, expected: &Value) {
    let wire = content.wire(revision, form);
    let sent: Value = serde_json::to_value(&wire).unwrap();
    assert_eq!(sent, *expected, "{form:?} {revision}");
    let cbor = Encoding::Cbor.encode(&wire).unwrap();
    assert_eq!(Raw::Cbor(&cbor).decode::<Value>().unwrap(), *expected, "{form:?} {revision}");
}

fn read(sent: &Value, encoding: Encoding) -> Result<Content, String> {
    let bytes = encoding.encode(sent).unwrap();
    let raw = match encoding {
        Encoding::Json => Raw::Json(std::str::from_utf8(&bytes).unwrap()),
        Encoding::Cbor => Raw::Cbor(&bytes),
    };
    raw.decode().map_err(|error| error.to_string())
}

fn typed_image_url() -> Content {
    let mime_type = Some("image/gif".to_owned());
    Content::ImageUrl { url: "x:/b".into(), mime_type, annotations: None, meta: None }
}

fn full_link() -> Content {
    Content::ResourceLink(Box::new(ResourceLink {
        uri: "file:///a".into(),
        name: "a".into(),
        title: Some("The A".into()),
        description: Some("first".into()),
        mime_type: Some("text/plain".into()),
        size: Some(7),
        ..ResourceLink::default()
    }))
}
