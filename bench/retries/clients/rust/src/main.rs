//! Makes one call with one client: call CLIENT METHOD URL.
use reqwest_middleware::ClientBuilder;
use reqwest_retry::{policies::ExponentialBackoff, RetryTransientMiddleware};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let method = args[1].parse().expect("a method");
    let policy = ExponentialBackoff::builder().build_with_max_retries(3);
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(RetryTransientMiddleware::new_with_policy(policy))
        .build();
    match client.request(method, &args[2]).body("{\"amount\":1}").send().await {
        Ok(answer) => println!("{}", answer.status()),
        Err(error) => println!("{error}"),
    }
}
