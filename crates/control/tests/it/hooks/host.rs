//! Hooks that are functions handed in: callbacks of the host, posts and questions to a model.

use super::{Stage, bash, deny_reason};
use futures_util::FutureExt;
use ostler_control::{
    Hooks,
    hooks::{
        AskModel, Callback, CallbackRequest, Fired, HttpPost, ModelQuestion, Post, Posted, Reach,
        Surroundings, host,
    },
};
use ostler_proto::{HookEvent, Json, hook::HookEnd};
use serde_json::json;
use std::sync::{Arc, Mutex};

const GUARD: HookEvent = HookEvent::PreToolUse;

async fn call_back(group: Json, answer: Result<Json, String>) -> (Fired, Vec<CallbackRequest>) {
    let stage = Stage::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let callback: Callback = Arc::new(move |request| {
        log.lock().unwrap().push(request);
        let answer = answer.clone();
        async move { if answer == Err("hang".into()) { std::future::pending().await } else { answer } }
            .boxed()
    });
    let mut hooks = Hooks::none(stage.surroundings());
    let read = host::read(&json!({ "PreToolUse": [group] })).unwrap().0;
    hooks.set_host(read, &callback, &[]).unwrap();
    let fired = hooks.fire(&stage.common(), &bash("ls")).await.fired;
    let seen = seen.lock().unwrap().clone();
    (fired, seen)
}

#[tokio::test]
async fn the_host_is_called_back() {
    let group = json!({"matcher": "Bash", "hookCallbackIds": ["hook_0", "hook_1"]});
    let (fired, seen) = call_back(group.clone(), Ok(json!({"decision": "block", "reason": "no"}))).await;
    assert_eq!(deny_reason(&fired), "no");
    let ids: Vec<&str> = seen.iter().map(|request| request.callback_id.as_str()).collect();
    assert_eq!(
        (ids.as_slice(), seen[0].tool_use_id.as_deref()),
        (["hook_0", "hook_1"].as_slice(), Some("toolu_1"))
    );
    assert_eq!(seen[0].input["tool_input"], json!({"command": "ls"}));
    let (fired, _) = call_back(group.clone(), Ok(json!({}))).await;
    assert_eq!((fired.verdict, fired.runs.len()), (None, 2));
    let (fired, _) = call_back(group.clone(), Ok(json!({"async": true, "asyncTimeout": 100}))).await;
    assert_eq!(fired.verdict, None);
    let (fired, seen) = call_back(json!({"matcher": "Edit", "hookCallbackIds": ["x"]}), Ok(json!({}))).await;
    assert_eq!((fired.runs.len(), seen.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_host_in_trouble() {
    let group = |on_failure: Json| json!({"hookCallbackIds": ["h"], "timeout": 5, "onFailure": on_failure});
    let (fired, _) = call_back(group(Json::Null), Err("boom".into())).await;
    assert_eq!((fired.verdict, fired.runs[0].problem.as_deref()), (None, Some("boom")));
    let (fired, _) = call_back(group(json!("block")), Err("boom".into())).await;
    assert!(deny_reason(&fired).contains("boom"));
    let (fired, _) = call_back(group(Json::Null), Err("hang".into())).await;
    assert!(deny_reason(&fired).contains("5 s"), "silence closes the gate");
    let (fired, _) = call_back(group(Json::Null), Ok(json!({"decision": 7}))).await;
    assert!(deny_reason(&fired).contains("not a hook's answer"));
    let (fired, _) = call_back(group(Json::Null), Ok(json!("text"))).await;
    assert_eq!(fired.runs[0].end, HookEnd::Answered);
    assert!(deny_reason(&fired).contains("not a hook's answer"));
}

#[tokio::test]
async fn a_second_greeting_replaces_the_first() {
    let stage = Stage::new();
    let callback: Callback = Arc::new(|_| async { Ok(json!({})) }.boxed());
    let mut hooks = Hooks::none(stage.surroundings());
    let read = |name: &str| host::read(&json!({"Stop": [{"hookCallbackIds": [name]}]})).unwrap().0;
    hooks.set_host(read("one"), &callback, &[]).unwrap();
    hooks.set_host(read("two"), &callback, &[]).unwrap();
    let names: Vec<String> = hooks.list().into_iter().map(|hook| hook.hook).collect();
    assert_eq!(names, ["two"]);
    assert!(hooks.listen_to(HookEvent::Stop) && !hooks.listen_to(GUARD));
}

/// Posts one hook; what is sent is handed back beside what came of it.
async fn post(
    hook: Json,
    lists: (Option<&str>, Option<&str>),
    answer: Result<Posted, String>,
) -> (Fired, Vec<Post>) {
    let mut stage = Stage::with(GUARD, json!([{ "hooks": [hook] }]));
    stage.scopes[0].urls = lists.0.map(|list| vec![list.to_owned()]);
    stage.scopes[0].env_vars = lists.1.map(|list| vec![list.to_owned()]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let send: HttpPost = Arc::new(move |post| {
        log.lock().unwrap().push(post);
        let answer = answer.clone();
        async move { answer }.boxed()
    });
    let surroundings = Surroundings { post: Some(send), ..stage.surroundings() };
    let hooks = Hooks::new(&stage.scopes, surroundings).unwrap();
    let fired = hooks.fire(&stage.common(), &bash("ls")).await.fired;
    let seen = seen.lock().unwrap().clone();
    (fired, seen)
}

fn answer(status: u16, content_type: &str, body: &str) -> Posted {
    Posted { status, content_type: content_type.into(), body: body.into() }
}

#[tokio::test]
async fn an_address_answers_with_json_or_the_gate_stays_closed() {
    let hook = || json!({"type": "http", "url": "https://hooks.example/h"});
    let check = async |answer, part: Option<&str>| {
        let (fired, _) = post(hook(), (None, None), answer).await;
        match part {
            Some(part) => assert!(deny_reason(&fired).contains(part), "{fired:?}"),
            None => assert_eq!(fired.verdict, None),
        }
    };
    let json = "application/json; charset=utf-8";
    check(Ok(answer(200, json, "{}")), None).await;
    check(Ok(answer(204, "", "")), None).await;
    check(Ok(answer(200, json, r#"{"decision": "block", "reason": "policy"}"#)), Some("policy")).await;
    check(Ok(answer(200, "text/html", "<html>")), Some("text/html")).await;
    check(Ok(answer(200, json, "[]")), Some("not a hook's answer")).await;
    check(Ok(answer(200, json, "{")), Some("not JSON")).await;
    check(Ok(answer(302, json, "{}")), Some("302")).await;
    check(Ok(answer(500, json, "{}")), Some("500")).await;
    check(Ok(answer(200, json, &" ".repeat(5_000_000))), Some("more than")).await;
    check(Err("connection refused".into()), Some("connection refused")).await;
}

#[tokio::test]
async fn lists_limit_addresses_and_variables() {
    let hook = |url: &str| json!({"type": "http", "url": url, "headers": {"Authorization": "Bearer $TOKEN", "X-Path": "${PATH}"}, "allowedEnvVars": ["TOKEN"]});
    let ok = || Ok(answer(200, "application/json", "{}"));
    let (_, sent) = post(hook("https://a.example/h"), (None, None), ok()).await;
    let headers =
        [("Authorization".to_owned(), "Bearer secret".to_owned()), ("X-Path".to_owned(), String::new())];
    assert_eq!((sent[0].headers.as_slice(), sent[0].reach), (headers.as_slice(), Reach::PublicOrLocal));
    assert_eq!(serde_json::from_slice::<Json>(&sent[0].body).unwrap()["tool_name"], "Bash");
    let (_, sent) =
        post(hook("https://a.example/h"), (Some("https://a.example/*"), Some("OTHER")), ok()).await;
    assert_eq!((sent[0].headers[0].1.as_str(), sent[0].reach), ("Bearer ", Reach::Listed));
    for url in ["https://a.example.evil/h", "http://a.example/h", "https://b.example/h"] {
        let (fired, sent) = post(hook(url), (Some("https://a.example/*"), None), ok()).await;
        assert!(deny_reason(&fired).contains("allowedHttpHookUrls") && sent.is_empty());
    }
    for url in ["file:///etc/passwd", "ftp://a.example/", "no address", "https://user:pw@a.example/"] {
        let (fired, sent) = post(hook(url), (None, None), ok()).await;
        assert!(!deny_reason(&fired).is_empty() && sent.is_empty());
    }
}

#[tokio::test]
async fn a_model_is_asked() {
    let ask = async |event: HookEvent, prompt: &str, words: Option<&'static str>| {
        let stage =
            Stage::with(event, json!([{"hooks": [{"type": "prompt", "prompt": prompt, "model": "small"}]}]));
        let seen: Arc<Mutex<Vec<ModelQuestion>>> = Arc::default();
        let log = Arc::clone(&seen);
        let ask_model = words.map(|words| -> AskModel {
            Arc::new(move |question| {
                log.lock().unwrap().push(question);
                async move { Ok(words.to_owned()) }.boxed()
            })
        });
        let hooks = Hooks::new(&stage.scopes, Surroundings { ask_model, ..stage.surroundings() }).unwrap();
        let fired = hooks.fire(&stage.common(), &ostler_control::hooks::Occasion::sample(event)).await.fired;
        let seen = seen.lock().unwrap().pop();
        (fired, seen)
    };
    let (fired, question) =
        ask(GUARD, "Is it safe? $ARGUMENTS", Some(r#"{"ok": false, "reason": "no"}"#)).await;
    let question = question.unwrap();
    assert!(question.prompt.starts_with("Is it safe? {\"session_id\""), "{question:?}");
    assert_eq!((deny_reason(&fired), question.model.as_deref()), ("no", Some("small")));
    let (fired, question) = ask(HookEvent::Stop, "Done?", Some(r#"{"ok": false, "reason": "tests"}"#)).await;
    assert_eq!(fired.block.as_deref(), Some("tests"));
    assert!(question.unwrap().prompt.starts_with("Done?\n\n{"));
    assert_eq!(ask(GUARD, "p", Some(r#"{"ok": true}"#)).await.0.verdict, None);
    assert!(deny_reason(&ask(GUARD, "p", Some("sure")).await.0).contains("ok"));
    assert!(deny_reason(&ask(GUARD, "p", None).await.0).contains("no model"));
}
