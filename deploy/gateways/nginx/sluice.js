// Asks Sluice about a request before the application gets it, and answers denied
// requests itself, with the status and the body that Sluice wrote.

// shown are the headers that clients get, on allowed and on denied requests. Each has a
// variable in nginx-njs.conf (js_var).
const shown = {
    'RateLimit-Policy': 'sluice_policy',
    'RateLimit': 'sluice_ratelimit',
    'X-RateLimit-Limit': 'sluice_limit',
    'X-RateLimit-Remaining': 'sluice_remaining',
    'X-RateLimit-Reset': 'sluice_reset',
    'X-RateLimit-Mode': 'sluice_mode',
};

async function limit(r) {
    const answer = await r.subrequest('/_sluice', { method: 'GET', body: '' });
    const denied = Number(answer.headersOut['X-RateLimit-Status']);
    for (const name in shown) {
        r.variables[shown[name]] = answer.headersOut[name] || '';
    }
    const delay = answer.headersOut['X-RateLimit-Delay-Ms'];
    if (delay) {
        await r.subrequest('/_wait', { method: 'GET', body: '', args: delay });
    }
    if (answer.status === 200 || answer.status >= 500) {
        // Allowed; or Sluice is unreachable or slow (fail-open).
        r.internalRedirect('@app');
        return;
    }
    if ((answer.status === 400 || answer.status === 431)
        && answer.headersOut['Content-Type'] !== 'application/problem+json') {
        r.return(400); // the client's headers are malformed or too long
        return;
    }
    if (answer.status !== 403 || !denied) {
        r.error(`Sluice refused the question with status ${answer.status}: ${answer.responseText}`);
        r.return(500);
        return;
    }
    for (const name in shown) {
        if (answer.headersOut[name]) {
            r.headersOut[name] = answer.headersOut[name];
        }
    }
    if (answer.headersOut['Retry-After']) {
        r.headersOut['Retry-After'] = answer.headersOut['Retry-After'];
    }
    r.headersOut['Content-Type'] = 'application/problem+json';
    r.return(denied, answer.responseText);
}

// pause answers after the milliseconds of its query.
function pause(r) {
    setTimeout(() => r.return(204), Number(r.variables.args));
}

export default { limit, pause };
