// Makes one call with one client: call.mjs CLIENT METHOD URL.
const [client, method, url] = process.argv.slice(2)
const body = { amount: 1 }
const json = method === 'POST' ? { json: body } : {}
const post = { method, headers: { 'content-type': 'application/json' } }
if (method === 'POST') post.body = JSON.stringify(body)

const calls = {
  async fetch() {
    return (await fetch(url, post)).status
  },
  async 'undici-RetryAgent'() {
    const { Agent, RetryAgent, request } = await import('undici')
    return (await request(url, { ...post, dispatcher: new RetryAgent(new Agent()) })).statusCode
  },
  async superagent() {
    const { default: superagent } = await import('superagent')
    return (await superagent(method, url).send(method === 'POST' ? body : undefined).retry(3)).status
  },
  async got() {
    const { default: got } = await import('got')
    return (await got(url, { method, ...json })).statusCode
  },
  async ofetch() {
    const { ofetch } = await import('ofetch')
    return ofetch(url, { method, body: method === 'POST' ? body : undefined })
  },
  async 'ofetch-retry'() {
    const { ofetch } = await import('ofetch')
    return ofetch(url, { method, body: method === 'POST' ? body : undefined, retry: 3, retryDelay: 500 })
  },
  async 'axios-retry'() {
    const { default: axios } = await import('axios')
    const { default: axiosRetry } = await import('axios-retry')
    axiosRetry(axios, { retries: 3, retryDelay: axiosRetry.exponentialDelay })
    return (await axios({ method, url, data: method === 'POST' ? body : undefined })).status
  },
  async ky() {
    const { default: ky } = await import('ky')
    return (await ky(url, { method, ...json })).status
  },
  async openai() {
    const { default: OpenAI } = await import('openai')
    const c = new OpenAI({ apiKey: 'none', baseURL: url })
    if (method === 'GET') return c.models.list()
    return c.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'hello' }] })
  },
  async anthropic() {
    const { default: Anthropic } = await import('@anthropic-ai/sdk')
    const c = new Anthropic({ apiKey: 'none', baseURL: url })
    if (method === 'GET') return c.models.list()
    return c.messages.create({ model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'hello' }] })
  },
}

console.log(await calls[client]())
