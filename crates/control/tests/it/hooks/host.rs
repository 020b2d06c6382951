//! Hooks that are functions handed in: callbacks of the host, posts and questions to a model.

use super::{Stage, answering, bash, deny_reason, of_host};
use futures_util::FutureExt;
use ostler_control::{
    Hooks,
    hooks::{AskModel, Fired, HttpPost, ModelAnswer, ModelQuestion, Post, Posted, Reach, Surroundings, Told},
};
use ostler_proto::{
    HookCall, HookEvent, HookNews, HookReply, HostHook, Json,
    hook::HookEnd,
    listener::{HookOutcome, OnFailure},
};
use serde_json::json;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const GUARD: HookEvent = HookEvent::PreToolUse;

async fn call_back(hooks: Vec<HostHook>, reply: impl Into<Option<HookReply>>) -> (Fired, Vec<HookCall>) {
    let stage = Stage::new();
    let around = stage.surroundings();
    let exchange = Arc::clone(&around.exchange);
    let mut all = Hooks::none(around);
    all.set_host(hooks);
    let (common, occasion) = (stage.common(), bash("ls"));
    let firing = all.fire(&common, &occasion);
    match reply.into() {
        Some(reply) => {
            let (firing, calls) = answering(&exchange, &reply, firing).await;
            (firing.fired, calls)
        }
        None => (firing.await.fired, Vec::new()),
    }
}

fn guard(matcher: &str, callback: &str) -> HostHook {
    HostHook { matcher: matcher.into(), timeout: Some(Duration::from_secs(5)), ..of_host(GUARD, callback) }
}

fn output(output: Json) -> HookReply {
    HookReply::Output(output)
}

#[tokio::test]
async fn the_host_is_called_back() {
    let both = || vec![guard("Bash", "hook_0"), guard("Bash", "hook_1")];
    let (fired, calls) = call_back(both(), output(json!({"decision": "block", "reason": "no"}))).await;
    assert_eq!(deny_reason(&fired), "no");
    let ids: Vec<&str> = calls.iter().map(|call| call.callback.as_str()).collect();
    assert_eq!(
        (ids.as_slice(), calls[0].tool_use_id.as_deref()),
        (["hook_0", "hook_1"].as_slice(), Some("toolu_1"))
    );
    assert_eq!(calls[0].input["tool_input"], json!({"command": "ls"}));
    let (fired, _) = call_back(both(), output(json!({}))).await;
    assert_eq!((fired.verdict, fired.runs.len()), (None, 2));
    let (fired, _) = call_back(both(), output(json!({"async": true, "asyncTimeout": 100}))).await;
    assert_eq!(fired.verdict, None);
    let (fired, calls) = call_back(vec![guard("Edit", "x")], output(json!({}))).await;
    assert_eq!((fired.runs.len(), calls.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_host_in_trouble() {
    let one = || vec![guard("", "h")];
    let strict = || vec![HostHook { on_failure: OnFailure::Block, ..guard("", "h") }];
    let boom = || HookReply::Error("boom".into());
    let (fired, _) = call_back(one(), boom()).await;
    assert_eq!((fired.verdict, fired.runs[0].problem.as_deref()), (None, Some("boom")));
    let (fired, _) = call_back(strict(), boom()).await;
    assert!(deny_reason(&fired).contains("boom"));
    let (fired, _) = call_back(one(), output(Json::Null)).await;
    assert_eq!((fired.verdict, &fired.runs[0].problem), (None, &None));
    let (fired, _) = call_back(strict(), output(Json::Null)).await;
    assert!(deny_reason(&fired).contains("nothing"), "{fired:?}");
    let (fired, _) = call_back(one(), HookReply::Unreachable("Stream closed".into())).await;
    assert!(deny_reason(&fired).contains("Stream closed"), "who cannot be asked has not agreed");
    let (fired, _) = call_back(one(), None).await;
    assert!(deny_reason(&fired).contains("5 s"), "silence closes the gate");
    let (fired, _) = call_back(one(), output(json!({"decision": 7}))).await;
    assert!(deny_reason(&fired).contains("not a hook's answer"));
    let (fired, _) = call_back(one(), output(json!("text"))).await;
    assert_eq!(fired.runs[0].end, HookEnd::Answered);
    assert!(deny_reason(&fired).contains("not a hook's answer"));
    let (fired, calls) = call_back(vec![guard("B(", "h")], output(json!({}))).await;
    assert!(deny_reason(&fired).contains("matcher") && calls.is_empty(), "nobody knows what it guards");
}

#[tokio::test]
async fn a_dropped_call_is_withdrawn_and_a_host_that_hung_up_is_not_called() {
    let stage = Stage::new();
    let around = stage.surroundings();
    let exchange = Arc::clone(&around.exchange);
    let mut hooks = Hooks::none(around);
    hooks.set_host(vec![guard("", "h")]);
    let news = || std::iter::from_fn(|| exchange.pending()).collect::<Vec<_>>();
    let (common, occasion) = (stage.common(), bash("ls"));
    drop(Box::pin(hooks.fire(&common, &occasion)).now_or_never());
    let told = news();
    let [Told::News(HookNews::Started(_)), Told::News(HookNews::Called(call)), rest @ ..] = told.as_slice()
    else {
        panic!("{told:?}")
    };
    assert_eq!(rest.first(), Some(&Told::News(HookNews::Withdrawn(call.id))));
    let Some(Told::News(HookNews::Ended(_, output))) = rest.last() else { panic!("{rest:?}") };
    assert_eq!(output.outcome, HookOutcome::Cancelled);
    exchange.hang_up();
    let fired = hooks.fire(&common, &occasion).await.fired;
    assert!(deny_reason(&fired).contains("nobody is left"), "{fired:?}");
    assert!(!news().iter().any(|told| matches!(told, Told::News(HookNews::Called(_)))));
}

#[tokio::test]
async fn a_second_greeting_replaces_the_first() {
    let stage = Stage::new();
    let mut hooks = Hooks::none(stage.surroundings());
    hooks.set_host(vec![of_host(HookEvent::Stop, "one")]);
    hooks.set_host(vec![of_host(HookEvent::Stop, "two")]);
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
                async move { Ok(ModelAnswer { text: words.to_owned(), spent: None }) }.boxed()
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
