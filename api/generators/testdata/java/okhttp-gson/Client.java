import org.openapitools.client.ApiClient;
import org.openapitools.client.model.Problem;

/** What is particular to the library okhttp-gson. */
class Client {
    static final String ETAG = "etag"; // the client has the names of headers in lower case

    static ApiClient connect(String url, String token) {
        ApiClient client = new ApiClient().setBasePath(url);
        client.setBearerToken(token);
        return client;
    }

    static Problem problem(String body) throws Exception {
        return Problem.fromJson(body);
    }
}
