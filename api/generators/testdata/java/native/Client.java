import org.openapitools.client.ApiClient;
import org.openapitools.client.model.Problem;

/** What is particular to the library native. */
class Client {
    static final String ETAG = "ETag";

    static ApiClient connect(String url, String token) {
        ApiClient client = new ApiClient();
        client.updateBaseUri(url);
        client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + token));
        return client;
    }

    static Problem problem(String body) throws Exception {
        return ApiClient.createDefaultObjectMapper().readValue(body, Problem.class);
    }
}
