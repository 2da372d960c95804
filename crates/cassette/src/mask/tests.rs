use super::Masker;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// Checks that nothing of a secret is left, and that masking again changes nothing.
fn check(masker: &Masker, value: &Value, secrets: &[&str]) {
    let mut masked = value.clone();
    assert!(masker.mask(&mut masked), "{value}");
    for secret in secrets {
        assert!(!masked.to_string().contains(secret), "{secret} in {masked} of {value}");
    }
    assert!(!masker.mask(&mut masked.clone()), "masked once: {masked}");
}

#[test]
fn secrets_are_masked_wherever_they_are() {
    let masker = Masker::new(&["customer_name".to_owned()]);
    let secret = "hunter2hunter2hunter2";
    let nested = json!({"outer": {"password": secret}}).to_string();
    let doubly = json!({"text": nested}).to_string();
    let quoted = json!({"password": secret, "n": 1}).to_string();
    let escaped = Value::from(quoted.as_str()).to_string();
    let twice = Value::from(escaped.as_str()).to_string();
    for value in [
        json!({"password": secret}),
        json!({"Api-Key": secret, "x": 1}),
        json!({"credentials": {"user": secret, "list": [secret]}}),
        json!({"customerName": secret}),
        json!({"access_token": secret}),
        json!({"tokens": {"refresh": secret}}),
        json!({"tokens": [secret]}),
        json!({"sig": secret}),
        json!({"X-Amz-Signature": secret}),
        json!({"code": secret, "redirect_uri": "http://localhost"}),
        json!({"api": {"key": secret}}),
        json!({"env": [{"name": "DB_PASSWORD", "value": secret}]}),
        json!([{"key": "Authorization", "value": secret}, {"name": "customer-name", "value": [secret]}]),
        json!({"history": [{"key": "password", "response": {"value": secret, "timestamp": 1}}]}),
        json!({"prompt": {"defaultValue": secret, "metadata": {"key": "password"}}}),
        json!({"inputResponses": {"password#1": {"action": "accept", "content": {"x": secret}}}}),
        json!({"inputResponses": {"q": {"action": "accept", "content": {"password": secret}}}}),
        json!({"initialParams": {"password": secret}}),
        json!({"entries": [{"event": {"asked": {"key": "password"}}, "question": "password"},
            {"event": {"answered": {"value": secret}}, "question": "name"}]}),
        json!({"args": ["--password", secret]}),
        json!({"args": ["serve", "--api-key", secret, "--port", "80"]}),
        json!({"args": ["-u", format!("me:{secret}")]}),
        json!({"inputSchema": {"properties": {"password": {"default": secret}}}}),
        json!({"headers": [["Host", "h"], ["X-Api-Key", secret]]}),
        json!({"rawHeaders": ["Host", "h", "X-Api-Key", secret]}),
        json!({"request_headers": ["Cookie", secret]}),
        json!([["user", "Ada"], ["password", secret]]),
        json!({"apiKeys": {secret: {"owner": "Ada"}, format!("{secret}3"): {"owner": "Eve"}}}),
        json!({"owners": {format!("sk-{secret}"): "Ada"}}),
        json!({"session_id": secret, "x": {"PHPSESSID": secret}}),
        json!({"Ocp-Apim-Subscription-Key": secret}),
        json!({"dbpass": secret, "user_pass": secret, "smtpPass": secret, "DB_PWD": secret}),
        json!({"creds": {"a": secret}, "csrf": secret, "X-XSRF": secret, "pw": secret}),
        json!({"env": {"PWD": secret}}),
        json!([{"k": "password", "v": secret}]),
        json!({"text": nested}),
        json!({"text": doubly}),
        // URLs
        json!(format!("https://h/?token={secret}")),
        json!(format!("ws://h?access_token={secret}")),
        json!(format!("https://example.com/?a=1&token={secret}&b=2")),
        json!(format!("https://h/cb?code={secret}&state=x")),
        json!(format!("https://h/?key={secret}")),
        json!(format!("https://h/x?X-Amz-Date=1&X-Amz-Signature={secret}&sig={secret}")),
        json!(format!("https://h/#access_token={secret}")),
        json!(format!("https://h/?next=https%3A%2F%2Fi%2F%3Ftoken%3D{secret}%26b")),
        json!(format!("https://me:{secret}@example.com/path")),
        json!(format!("https://me:p@ss{secret}@example.com/path")),
        json!(format!("postgres://me:p/w{secret}@example.com/path")),
        json!(format!("https://{secret}@example.com")),
        json!(format!("grant_type=authorization_code&code={secret}")),
        json!(format!("code={secret}&grant_type=authorization_code")),
        json!(format!("https://h/?pw={secret}")),
        // Texts
        json!(format!("password: |\n  {secret}\n\n  {secret}\nuser: Ada")),
        json!(format!("a:\n  secret: >-\n    {secret}\n  b: 1")),
        json!(format!("Server=db;UID=sa;PWD={secret}")),
        json!(format!("error:password={secret}")),
        json!(format!("a.b.password={secret}")),
        json!(format!("db_password: {secret}")),
        json!(format!("password => '{secret}'")),
        json!(format!("user[password]={secret}")),
        json!(format!("API key: {secret}")),
        json!(format!("<password>{secret}</password>")),
        json!(format!("GITHUB_TOKEN={secret}\nHOME=/root")),
        json!(format!("said: {quoted}")),
        json!(format!("body={escaped}")),
        json!(format!("body={twice} rest")),
        json!(format!("body={{\"secrets\": [\"{secret}\"], \"n\"")),
        json!(format!("password: \"with \\\" {secret}\"")),
        json!(format!("said {{\"p\\u0061ssword\": \"{secret}\"")),
        // Commands and headers
        json!(format!("server --password {secret}")),
        json!(format!("server --password=\"two {secret}\"")),
        json!(format!("curl -u me:{secret} https://h")),
        json!(format!("[\"--password\", \"{secret}\"] and more")),
        json!(format!("Authorization: Token {secret}")),
        json!(format!("Cookie: a=\"b\"; c={secret}")),
        json!(format!("curl -H 'Authorization: Bearer {secret}' x")),
        json!(format!("curl -H \"Cookie: a=b; c={secret}\" x")),
        json!(format!("Bearer {secret}")),
        json!(format!("-----BEGIN RSA PRIVATE KEY-----\n{secret}\n-----END RSA PRIVATE KEY-----")),
        json!(format!("the key sk-{secret} is mine")),
        json!(format!("eyJhbGciOiJI.eyJ{secret}.{secret}")),
    ] {
        check(&masker, &value, &["hunter2"]);
    }
    let text =
        masker.mask_command(&["a", "--password", "two words", "-u", "a:b"].map(str::to_owned));
    assert_eq!(text, "a --password [masked] -u [masked]");
}

#[test]
fn secrets_are_masked_in_base64() {
    let masker = Masker::new(&[]);
    for (plain, encoded) in [
        ("user:hunter2", STANDARD.encode("user:hunter2")),
        ("us:hunter2", STANDARD_NO_PAD.encode("us:hunter2")),
        ("jürgen:pässwörd", STANDARD_NO_PAD.encode("jürgen:pässwörd")),
        ("ÿÿÿ:>>>???", URL_SAFE_NO_PAD.encode("ÿÿÿ:>>>???")),
    ] {
        for value in [json!(format!("Basic {encoded}")), json!({"headers": {"X-Login": encoded}})] {
            check(&masker, &value, &[&encoded, plain]);
        }
    }
    let login = STANDARD.encode("user:hunter2");
    for value in [json!({"b": login}), json!(format!("see {login}, or not"))] {
        check(&masker, &value, &[&login]);
    }
    let whole = STANDARD.encode("Authorization: Bearer hunter2hunter2hunter2");
    let nested = STANDARD_NO_PAD.encode(format!("header {whole}"));
    for encoded in [whole, nested, STANDARD.encode("{\"password\":\"hunter2\"}")] {
        check(&masker, &json!({"text": format!("x {encoded}.")}), &[&encoded[..10]]);
    }
}

#[test]
fn what_is_no_secret_stays() {
    let masker = Masker::new(&[]);
    for value in [
        json!({"_meta": {"progressToken": 3}, "maxTokens": 100, "nextPageToken": "abc"}),
        json!({"usage": {"tokens": 100, "inputTokens": 7}, "code": "print(1)", "key": "name"}),
        json!({"error": {"code": -32602, "message": "max_tokens=100 is too much"}}),
        json!({"inputSchema": {"properties": {"password": {"type": "string"}, "token": {"type": "string"}}}}),
        json!({"arguments": [{"name": "password", "description": "of the user", "required": true}]}),
        json!({"inputResponses": {"name": {"action": "accept", "content": {"name": "Ada"}}}}),
        json!({"args": ["--verbose", "x", "-u", "root", "--tokenizer", "y"]}),
        json!("Basic information about bearer authentication"),
        json!("https://example.com/path?q=1#x and a@b.example"),
        json!("http://localhost:8080/a@b http://[::1]:80/x@y"),
        json!({"text": "{\"a\": 1}", "uri": "file:///tmp/x", "isSecret": false}),
        json!("time: 12:30, ratio: 3, token::new() keyboard: yes"),
        json!("SGVsbG8gd29ybGQsIHRoaXMgaXMgdGV4dA== and /usr/local/lib/python3/site"),
        json!([STANDARD.encode("Note: it is late"), STANDARD.encode("see https://example.com/x")]),
        json!([STANDARD.encode("2026-01-01T10:00:00"), STANDARD.encode("{\"name\":\"Ada\"}")]),
        json!("task-management-system-overview and ask-anything-you-want-here"),
        json!({"env": {"PWD": "/home/ada", "OLDPWD": "/"}, "text": "PWD=/home/ada"}),
        json!({"env": [{"name": "PWD", "value": "/home/ada"}]}),
        json!({"sessionId": "session_0123", "bypass": "x", "compass": "north", "keyboard": "us"}),
        json!({"rawHeaders": ["Host", "h", "Accept", "x"], "rows": [["city", "Paris"]]}),
        json!({"headers": ["Accept: x", "Host: h"], "fields": ["password", "email"]}),
        json!("npm_config_registry_of_my_company and pypi-publish-action-for-everyone"),
        json!("note: |\n  two\n  lines\nASIAPACIFICHEADQUARTERS"),
    ] {
        let mut masked = value.clone();
        assert!(!masker.mask(&mut masked), "{masked}");
        assert_eq!(masked, value);
    }
}
